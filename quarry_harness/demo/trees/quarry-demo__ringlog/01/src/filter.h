#ifndef RINGLOG_FILTER_H
#define RINGLOG_FILTER_H

#include "ringlog.h"

/* A chain of conditions that a record has to meet. */
struct filter {
    enum rl_level at_least;
    const char *pattern;
    uint64_t from;
    uint64_t to;
};

void filter_init(struct filter *filter);
int filter_accepts(const struct filter *filter, const struct rl_record *record);
int glob_match(const char *pattern, const char *text);

#endif
