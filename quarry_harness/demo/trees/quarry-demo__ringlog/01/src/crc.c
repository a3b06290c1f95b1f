#include "crc.h"

static uint32_t table[256];
static int ready;

static void build_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
        table[i] = value;
    }
    ready = 1;
}

uint32_t crc32_update(uint32_t crc, const void *data, size_t length)
{
    const unsigned char *bytes = data;

    if (!ready)
        build_table();
    crc = ~crc;
    while (length--)
        crc = table[(crc ^ *bytes++) & 0xff] ^ (crc >> 8);
    return ~crc;
}
