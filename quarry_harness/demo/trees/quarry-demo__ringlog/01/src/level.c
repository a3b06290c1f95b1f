#include "ringlog.h"

#include <string.h>
#include <strings.h>

static const char *const names[] = {"debug", "info", "warn", "error"};

const char *rl_level_name(enum rl_level level)
{
    if ((unsigned)level >= sizeof names / sizeof *names)
        return "?";
    return names[level];
}

int rl_level_parse(const char *word, enum rl_level *level)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(word, names[i]) == 0) {
            *level = (enum rl_level)i;
            return 0;
        }
    }
    return -1;
}
