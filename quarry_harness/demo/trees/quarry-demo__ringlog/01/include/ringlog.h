#ifndef RINGLOG_H
#define RINGLOG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rl_level { RL_DEBUG, RL_INFO, RL_WARN, RL_ERROR };

enum rl_status { RL_OK = 0, RL_FULL = -1, RL_CORRUPT = -2, RL_IO = -3, RL_TOO_LONG = -4 };

struct rl_ring;

struct rl_record {
    uint64_t sequence;
    enum rl_level level;
    const char *text;
    size_t length;
};

typedef int (*rl_visitor)(const struct rl_record *record, void *context);

struct rl_ring *rl_open(const char *path, size_t bytes);
void rl_close(struct rl_ring *ring);
int rl_append(struct rl_ring *ring, enum rl_level level, const char *text, size_t length);
int rl_printf(struct rl_ring *ring, enum rl_level level, const char *format, ...);
int rl_visit(const struct rl_ring *ring, rl_visitor visitor, void *context);
int rl_check(const struct rl_ring *ring, uint64_t *damaged);
const char *rl_level_name(enum rl_level level);
int rl_level_parse(const char *word, enum rl_level *level);

#ifdef __cplusplus
}
#endif

#endif
