/* As many floats side by side as a register of this level has: part of a panel. Lanes (lanes.h) are a panel at any
 * level, but what compares them is slow where they are more than a register. */
#ifndef STRIP_H
#define STRIP_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
enum { STRIP = 16 };
#elif defined(__AVX2__)
enum { STRIP = 8 };
#else
enum { STRIP = 4 };
#endif

typedef float Strip __attribute__((vector_size(STRIP * sizeof(float))));
typedef int32_t IntStrip __attribute__((vector_size(STRIP * sizeof(int32_t))));
typedef uint32_t WordStrip __attribute__((vector_size(STRIP * sizeof(uint32_t))));

static inline Strip strip_load(const float *from)
{
    Strip strip;
    memcpy(&strip, from, sizeof strip);
    return strip;
}

static inline Strip strip_all(float value)
{
    return value - (Strip){0};
}

/* a where the mask has all bits, b where it has none. */
static inline Strip strip_chosen(IntStrip mask, Strip a, Strip b)
{
    return (Strip)((mask & (IntStrip)a) | (~mask & (IntStrip)b));
}

#ifdef __AVX512F__     /* for these the compiler has no operator */
static inline Strip strip_larger(Strip a, Strip b)
{
    return (Strip)_mm512_max_ps((__m512)a, (__m512)b);
}

static inline Strip strip_smaller(Strip a, Strip b)
{
    return (Strip)_mm512_min_ps((__m512)a, (__m512)b);
}
#elif defined(__AVX2__)
static inline Strip strip_larger(Strip a, Strip b)
{
    return (Strip)_mm256_max_ps((__m256)a, (__m256)b);
}

static inline Strip strip_smaller(Strip a, Strip b)
{
    return (Strip)_mm256_min_ps((__m256)a, (__m256)b);
}
#else
static inline Strip strip_larger(Strip a, Strip b)
{
    return strip_chosen(a > b, a, b);
}

static inline Strip strip_smaller(Strip a, Strip b)
{
    return strip_chosen(a < b, a, b);
}
#endif

#endif
