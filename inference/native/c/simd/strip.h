/* One SIMD register of floats at this CPU level: part of a panel. Lanes (lanes.h) are as wide as a panel at every
 * level, but comparisons of them are slow where they take more than one register. */
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

/* a where the mask has all bits set, b where it has none. */
static inline Strip strip_select(IntStrip mask, Strip a, Strip b)
{
    return (Strip)((mask & (IntStrip)a) | (~mask & (IntStrip)b));
}

#ifdef __AVX512F__     /* the compiler has no operators for these */
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
    return strip_select(a > b, a, b);
}

static inline Strip strip_smaller(Strip a, Strip b)
{
    return strip_select(a < b, a, b);
}
#endif

static inline Strip strip_limited(Strip values, float low, float high)
{
    return strip_smaller(strip_larger(values, strip_all(low)), strip_all(high));
}

/* Round to the nearest integer, for values below 2²²: a float as large as 1.5 × 2²³ has no fraction bits. */
static inline Strip strip_nearest(Strip values)
{
    return values + 12582912.0f - 12582912.0f;
}

/* 1 / scale, or 0 if the scale is 0. */
static inline Strip strip_inverse(Strip scales)
{
    return strip_select(scales == 0, strip_all(0), 1 / scales);
}

static inline Strip strip_magnitude(Strip values)
{
    return (Strip)((IntStrip)values & 0x7fffffff);
}

#endif
