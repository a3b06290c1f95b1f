#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "ringlog.h"

static void usage(FILE *out)
{
    fputs("usage: ringlog FILE BYTES [-l LEVEL] [-p PATTERN] [-s FROM:TO]\n", out);
}

static int parse_span(const char *text, struct filter *filter)
{
    char *end;

    filter->from = strtoull(text, &end, 10);
    if (*end != ':')
        return -1;
    if (end[1] != '\0')
        filter->to = strtoull(end + 1, &end, 10);
    return filter->from <= filter->to ? 0 : -1;
}

static void put_escaped(const char *text, FILE *out)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            fprintf(out, "\\x%02x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
}

static int print_record(const struct rl_record *record, void *context)
{
    const struct filter *filter = context;

    if (filter_accepts(filter, record)) {
        printf("%8llu %-5s ", (unsigned long long)record->sequence, rl_level_name(record->level));
        put_escaped(record->text, stdout);
        putchar('\n');
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct filter filter;
    struct rl_ring *ring;

    if (argc < 3) {
        usage(stderr);
        return 2;
    }
    filter_init(&filter);
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "-l") == 0 && rl_level_parse(argv[i + 1], &filter.at_least) == 0)
            continue;
        if (strcmp(argv[i], "-s") == 0 && parse_span(argv[i + 1], &filter) == 0)
            continue;
        if (strcmp(argv[i], "-p") == 0) {
            filter.pattern = argv[i + 1];
            continue;
        }
        usage(stderr);
        return 2;
    }
    ring = rl_open(argv[1], strtoul(argv[2], NULL, 10));
    if (!ring) {
        perror(argv[1]);
        return 1;
    }
    rl_visit(ring, print_record, &filter);
    rl_close(ring);
    return 0;
}
