#ifndef RINGLOG_CRC_H
#define RINGLOG_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_update(uint32_t crc, const void *data, size_t length);

static inline uint32_t crc32_of(const void *data, size_t length)
{
    return crc32_update(0, data, length);
}

#endif
