/* bfloat16: the upper half of a float. */
#ifndef BFLOAT_H
#define BFLOAT_H

#include <stdint.h>
#include <string.h>

static inline float bfloat_read(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest, of two as near the even one; what is not a number stays so. */
static inline uint16_t bfloat_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)((value == value ? rounded : bits | 0x400000) >> 16);
}

#endif
