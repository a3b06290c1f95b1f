#include "ringlog.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"

#define MAGIC 0x474f4c52u
#define ALIGN 8u

struct header {
    uint32_t magic;
    uint32_t version;
    uint64_t capacity;
    uint64_t head;
    uint64_t tail;
    uint64_t sequence;
};

struct frame {
    uint32_t crc;
    uint32_t length;
    uint64_t sequence;
    uint32_t level;
    uint32_t unused;
};

struct rl_ring {
    struct header *header;
    unsigned char *data;
    size_t mapped;
};

static size_t padded(size_t length)
{
    return (length + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static size_t frame_size(size_t length)
{
    return padded(sizeof(struct frame) + length);
}

/* Copies out of the ring; a piece that runs over the end goes on at the start. */
static void copy_out(const struct rl_ring *ring, uint64_t offset, void *target, size_t length)
{
    uint64_t at = offset % ring->header->capacity;
    size_t first = ring->header->capacity - at;

    if (first > length)
        first = length;
    memcpy(target, ring->data + at, first);
    memcpy((char *)target + first, ring->data, length - first);
}

static void copy_in(struct rl_ring *ring, uint64_t offset, const void *source, size_t length)
{
    uint64_t at = offset % ring->header->capacity;
    size_t first = ring->header->capacity - at;

    if (first > length)
        first = length;
    memcpy(ring->data + at, source, first);
    memcpy(ring->data, (const char *)source + first, length - first);
}

static uint64_t used(const struct rl_ring *ring)
{
    return ring->header->head - ring->header->tail;
}

static void drop_oldest(struct rl_ring *ring)
{
    struct frame frame;

    copy_out(ring, ring->header->tail, &frame, sizeof frame);
    ring->header->tail += frame_size(frame.length);
}

static int map_file(struct rl_ring *ring, int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return RL_IO;
    ring->header = memory;
    ring->data = (unsigned char *)memory + sizeof(struct header);
    ring->mapped = bytes;
    return RL_OK;
}

struct rl_ring *rl_open(const char *path, size_t bytes)
{
    struct rl_ring *ring = calloc(1, sizeof *ring);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t capacity = bytes & ~(size_t)(ALIGN - 1);

    if (!ring || fd < 0)
        goto fail;
    if (ftruncate(fd, (off_t)(sizeof(struct header) + capacity)) != 0)
        goto fail;
    if (map_file(ring, fd, sizeof(struct header) + capacity) != RL_OK)
        goto fail;
    close(fd);
    if (ring->header->magic != MAGIC || ring->header->capacity != capacity) {
        memset(ring->header, 0, sizeof *ring->header);
        ring->header->capacity = capacity;
        ring->header->version = 1;
        ring->header->magic = MAGIC;
    }
    return ring;

fail:
    if (fd >= 0)
        close(fd);
    free(ring);
    return NULL;
}

void rl_close(struct rl_ring *ring)
{
    if (!ring)
        return;
    msync(ring->header, ring->mapped, MS_SYNC);
    munmap(ring->header, ring->mapped);
    free(ring);
}

int rl_append(struct rl_ring *ring, enum rl_level level, const char *text, size_t length)
{
    struct frame frame = {0};
    size_t need = frame_size(length);

    if (need > ring->header->capacity)
        return RL_TOO_LONG;
    while (used(ring) + need > ring->header->capacity)
        drop_oldest(ring);
    frame.length = (uint32_t)length;
    frame.level = level;
    frame.sequence = ++ring->header->sequence;
    frame.crc = crc32_update(crc32_of(&frame.length, sizeof frame - sizeof frame.crc), text, length);
    copy_in(ring, ring->header->head, &frame, sizeof frame);
    copy_in(ring, ring->header->head + sizeof frame, text, length);
    ring->header->head += need;
    return RL_OK;
}

int rl_printf(struct rl_ring *ring, enum rl_level level, const char *format, ...)
{
    char buffer[512];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    if (length < 0)
        return RL_IO;
    if ((size_t)length >= sizeof buffer)
        length = sizeof buffer - 1;
    return rl_append(ring, level, buffer, (size_t)length);
}

int rl_visit(const struct rl_ring *ring, rl_visitor visitor, void *context)
{
    uint64_t at = ring->header->tail;

    while (at < ring->header->head) {
        struct frame frame;
        struct rl_record record;
        char *text;
        int stop;

        copy_out(ring, at, &frame, sizeof frame);
        text = malloc(frame.length + 1u);
        if (!text)
            return RL_IO;
        copy_out(ring, at + sizeof frame, text, frame.length);
        text[frame.length] = '\0';
        record = (struct rl_record){frame.sequence, (enum rl_level)frame.level, text, frame.length};
        stop = visitor(&record, context);
        free(text);
        if (stop)
            return stop;
        at += frame_size(frame.length);
    }
    return RL_OK;
}

int rl_check(const struct rl_ring *ring, uint64_t *damaged)
{
    uint64_t at = ring->header->tail;

    *damaged = 0;
    while (at < ring->header->head) {
        struct frame frame;
        unsigned char byte;
        uint32_t crc;

        copy_out(ring, at, &frame, sizeof frame);
        if (frame_size(frame.length) > ring->header->head - at)
            return RL_CORRUPT;
        crc = crc32_of(&frame.length, sizeof frame - sizeof frame.crc);
        for (uint32_t i = 0; i < frame.length; i++) {
            copy_out(ring, at + sizeof frame + i, &byte, 1);
            crc = crc32_update(crc, &byte, 1);
        }
        *damaged += crc != frame.crc;
        at += frame_size(frame.length);
    }
    return *damaged ? RL_CORRUPT : RL_OK;
}
