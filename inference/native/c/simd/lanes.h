/* A vector of sixteen floats, in a vector type of the compiler: one or more registers, depending on the CPU level. */
#ifndef LANES_H
#define LANES_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { LANES = 16 };

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t IntLanes __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint32_t WordLanes __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int16_t ShortLanes __attribute__((vector_size(LANES * sizeof(int16_t))));
typedef int8_t ByteLanes __attribute__((vector_size(LANES)));
typedef uint16_t HalfLanes __attribute__((vector_size(LANES * sizeof(uint16_t))));

static inline Lanes lanes_load(const float *from)
{
    Lanes lanes;
    memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

/* Load LANES values of bfloat16. */
static inline Lanes lanes_load_bfloats(const uint16_t *from)
{
    HalfLanes halves;
    memcpy(&halves, from, sizeof halves);
    return (Lanes)(__builtin_convertvector(halves, WordLanes) << 16);
}

/* sums + the products of 2 * LANES values of bfloat16. Where the CPU has an instruction for them, each lane adds two
 * products of neighbours, and subnormal numbers are zero. */
static inline Lanes lanes_add_products(Lanes sums, const uint16_t *x, const uint16_t *weights)
{
#ifdef __AVX512BF16__
    return (Lanes)_mm512_dpbf16_ps((__m512)sums, (__m512bh)_mm512_loadu_si512(x), (__m512bh)_mm512_loadu_si512(weights));
#else
    sums += lanes_load_bfloats(x) * lanes_load_bfloats(weights);
    return sums + lanes_load_bfloats(x + LANES) * lanes_load_bfloats(weights + LANES);
#endif
}

/* Load LANES signed bytes. Other than one widening at a time, the compiler computes one lane at a time. */
static inline Lanes lanes_load_bytes(const int8_t *from)
{
#ifdef __AVX512F__
    return (Lanes)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
#else
    ByteLanes bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(__builtin_convertvector(__builtin_convertvector(bytes, ShortLanes), IntLanes), Lanes);
#endif
}

/* Rounded to bfloat16: to nearest, ties to even; for finite values. */
static inline HalfLanes lanes_to_bfloats(Lanes lanes)
{
#ifdef __AVX512BF16__
    return (HalfLanes)_mm512_cvtneps_pbh((__m512)lanes);
#else
    const WordLanes bits = (WordLanes)lanes;
    return __builtin_convertvector((bits + 0x7fff + (bits >> 16 & 1)) >> 16, HalfLanes);
#endif
}

static inline void lanes_store(float *to, Lanes from)
{
    memcpy(to, &from, sizeof from);
}

/* Load min(count, LANES) floats, padded with zeros. */
static inline Lanes lanes_load_part(const float *from, int count)
{
    Lanes lanes = {0};
    if (count >= LANES)
        return lanes_load(from);
    memcpy(&lanes, from, count * sizeof(float));
    return lanes;
}

static inline Lanes lanes_all(float value)
{
    return value - (Lanes){0};
}

static inline IntLanes lanes_numbers(void)
{
    return (IntLanes){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* a where the mask has all bits set, b where it has none. */
static inline Lanes lanes_select(IntLanes mask, Lanes a, Lanes b)
{
    return (Lanes)((mask & (IntLanes)a) | (~mask & (IntLanes)b));
}

/* The compiler has no operators for these. Where a vector takes several registers, it compiles comparisons one lane at
 * a time, unless they are written as loops. */
#ifdef __AVX512F__
static inline Lanes lanes_larger(Lanes a, Lanes b)
{
    return (Lanes)_mm512_max_ps((__m512)a, (__m512)b);
}

static inline Lanes lanes_smaller(Lanes a, Lanes b)
{
    return (Lanes)_mm512_min_ps((__m512)a, (__m512)b);
}
/* The values in lanes where x >= least, 0 in the others. */
static inline Lanes lanes_from(float least, Lanes x, Lanes values)
{
    return (Lanes)((IntLanes)values & (x >= least));
}
#else
static inline Lanes lanes_larger(Lanes a, Lanes b)
{
    for (int i = 0; i < LANES; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

static inline Lanes lanes_smaller(Lanes a, Lanes b)
{
    for (int i = 0; i < LANES; i++)
        a[i] = a[i] < b[i] ? a[i] : b[i];
    return a;
}

static inline Lanes lanes_from(float least, Lanes x, Lanes values)
{
    for (int i = 0; i < LANES; i++)
        values[i] = x[i] >= least ? values[i] : 0;
    return values;
}
#endif

/* Swap each lane with the one `distance` away, a power of two. */
#define LANES_AWAY(lanes, distance) __builtin_shuffle(lanes, lanes_numbers() ^ (distance))

static inline float lanes_sum(Lanes lanes)
{
    lanes += LANES_AWAY(lanes, 8);
    lanes += LANES_AWAY(lanes, 4);
    lanes += LANES_AWAY(lanes, 2);
    lanes += LANES_AWAY(lanes, 1);
    return lanes[0];
}

static inline float lanes_largest(Lanes lanes)
{
    lanes = lanes_larger(lanes, LANES_AWAY(lanes, 8));
    lanes = lanes_larger(lanes, LANES_AWAY(lanes, 4));
    lanes = lanes_larger(lanes, LANES_AWAY(lanes, 2));
    lanes = lanes_larger(lanes, LANES_AWAY(lanes, 1));
    return lanes[0];
}

#ifdef __AVX512F__
static inline Lanes lanes_nearest(Lanes x)
{
    return (Lanes)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT);
}

static inline Lanes lanes_times_two_to(Lanes x, Lanes power)
{
    return (Lanes)_mm512_scalef_ps((__m512)x, (__m512)power);
}
#else
/* Round to the nearest integer, for values below 2²²: a float as large as 1.5 × 2²³ has no fraction bits. */
static inline Lanes lanes_nearest(Lanes x)
{
    return (x + 12582912) - 12582912;
}

/* x × 2 to the power; the powers are integers. */
static inline Lanes lanes_times_two_to(Lanes x, Lanes power)
{
    return x * (Lanes)((__builtin_convertvector(power, IntLanes) + 127) << 23);
}
#endif

/* eˣ, within 2 units in the last place; 0 for x < -87, e⁸⁸ for x > 88. The polynomial and the two parts of ln 2 are
 * those of expf in Cephes (S. Moshier, netlib.org/cephes). */
static inline Lanes lanes_exp(Lanes x)
{
    const Lanes limited = lanes_smaller(lanes_larger(x, lanes_all(-87)), lanes_all(88));
    const Lanes power = lanes_nearest(limited * 1.44269504f);
    const Lanes r = limited - power * 0.693359375f + power * 2.12194440e-4f;
    Lanes sum = lanes_all(1.9875691500e-4f);
    sum = sum * r + 1.3981999507e-3f;
    sum = sum * r + 8.3334519073e-3f;
    sum = sum * r + 4.1665795894e-2f;
    sum = sum * r + 1.6666665459e-1f;
    sum = sum * r + 5.0000001201e-1f;
    sum = sum * (r * r) + r + 1;
    return lanes_from(-87, x, lanes_times_two_to(sum, power));
}

static inline Lanes lanes_tanh(Lanes x)
{
    return 1 - 2 / (lanes_exp(2 * x) + 1);
}

#endif
