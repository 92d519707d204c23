/* Vectors of a panel's width in AVX-512, with VNNI and BF16 products: one register each. */
#ifndef VECTORS_H
#define VECTORS_H

#include <immintrin.h>
#include <stdint.h>

#include "panel.h"

typedef __m512 Floats;
typedef __m512i Ints;
typedef __m512i Words;

static inline Floats floats_all(float value)
{
    return _mm512_set1_ps(value);
}

static inline Floats floats_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

/* Store the first `count` lanes. */
static inline void floats_store_some(float *to, Floats from, int count)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), from);
}

static inline Floats floats_of_bfloats(const uint16_t *from)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline Floats floats_of_ints(Ints ints)
{
    return _mm512_cvtepi32_ps(ints);
}

static inline Floats floats_times(Floats a, Floats b)
{
    return _mm512_mul_ps(a, b);
}

static inline Floats floats_plus_product(Floats sum, Floats a, Floats b)
{
    return _mm512_fmadd_ps(a, b, sum);
}

static inline Ints ints_all(int32_t value)
{
    return _mm512_set1_epi32(value);
}

static inline Words words_load(const void *from)
{
    return _mm512_loadu_si512(from);
}

static inline Words words_all(const void *from)
{
    int32_t word;
    __builtin_memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
}

static inline Words words_low_halves(Words both)
{
    return _mm512_and_si512(both, _mm512_set1_epi8(0x0f));
}

static inline Words words_high_halves(Words both)
{
    return _mm512_and_si512(_mm512_srli_epi16(both, 4), _mm512_set1_epi8(0x0f));
}

/* sum + weight × input in each lane, for floats. */
static inline Floats floats_plus(Floats sum, Words weights, Words inputs)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(weights), _mm512_castsi512_ps(inputs), sum);
}

/* sum + two products of bfloat16 in each lane. */
static inline Floats pairs_plus(Floats sum, Words weights, Words inputs)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)weights, (__m512bh)inputs);
}

/* sum + four products of an unsigned weight byte and a signed input byte in each lane. */
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    return _mm512_dpbusd_epi32(sum, weights, inputs);
}

#endif
