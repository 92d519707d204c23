/* bfloat16: the upper half of a float. */
#ifndef BFLOAT_H
#define BFLOAT_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

static inline float bfloat_read(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Round to nearest, ties to even. NaN stays NaN. */
static inline uint16_t bfloat_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)((value == value ? rounded : bits | 0x400000) >> 16);
}

/* Round `count` floats. The vector instruction flushes subnormal numbers to zero. */
static inline void bfloats_round(uint16_t *to, const float *from, int count)
{
    int k = 0;
#ifdef __AVX512BF16__
    for (; k + 16 <= count; k += 16)
        _mm256_storeu_si256((__m256i *)(to + k), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + k)));
#endif
    for (; k < count; k++)
        to[k] = bfloat_round(from[k]);
}

#endif
