#include "filter.h"

#include <string.h>

void filter_init(struct filter *filter)
{
    memset(filter, 0, sizeof *filter);
    filter->to = UINT64_MAX;
}

/* '*' stands for any run of characters, '?' for one; only the last star is ever tried again. */
int glob_match(const char *pattern, const char *text)
{
    const char *star = NULL;
    const char *resume = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

int filter_accepts(const struct filter *filter, const struct rl_record *record)
{
    if (record->level < filter->at_least)
        return 0;
    if (record->sequence < filter->from || record->sequence > filter->to)
        return 0;
    return !filter->pattern || glob_match(filter->pattern, record->text);
}
