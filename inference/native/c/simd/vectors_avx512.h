/* Vectors of a panel's width in AVX-512: one register each. Products of bfloat16 and of bytes are single instructions
 * where the level has BF16 and VNNI; else the factors are widened first. */
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

/* From float16. */
static inline Floats floats_of_halves(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

static inline Floats floats_of_bytes(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)));
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

static inline Words words_none(void)
{
    return _mm512_setzero_si512();
}

/* The bits of `mask` of each byte, `shift` bits up. */
static inline Words words_bits(Words words, int shift, int mask)
{
    return _mm512_and_si512(_mm512_srli_epi32(words, shift), _mm512_set1_epi8((char)mask));
}

/* Low bits, and high ones `up` bits up. */
static inline Words words_join(Words lows, Words highs, int up)
{
    return _mm512_or_si512(lows, _mm512_slli_epi32(highs, up));
}

/* The entries of a table by codes of four bits. */
static inline Words words_entries(const uint8_t table[16], Words codes)
{
    const __m128i entries = _mm_loadu_si128((const __m128i *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), codes);
}

/* sum + weight × input in each lane, for floats. */
static inline Floats floats_plus(Floats sum, Words weights, Words inputs)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(weights), _mm512_castsi512_ps(inputs), sum);
}

/* sum + the products of two bfloat16 weights in each lane with two inputs, the same for all lanes. */
#ifdef __AVX512BF16__
enum { PAIR_BYTES = 4 };    /* two inputs: bfloat16 */

static inline Floats pairs_plus(Floats sum, Words weights, const void *inputs)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)weights, (__m512bh)words_all(inputs));
}
#else
enum { PAIR_BYTES = 8 };    /* two inputs: floats */

static inline Floats pairs_plus(Floats sum, Words weights, const void *inputs)
{
    const float *pair = inputs;
    const Words second = _mm512_and_si512(weights, _mm512_set1_epi32((int)0xffff0000));
    sum = floats_plus(sum, _mm512_slli_epi32(weights, 16), words_all(pair));
    return floats_plus(sum, second, words_all(pair + 1));
}
#endif

/* sum + four products of an unsigned weight byte and a signed input byte in each lane. */
#ifdef __AVX512VNNI__
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    return _mm512_dpbusd_epi32(sum, weights, inputs);
}
#else
/* Multiply bytes 0 and 2 of each lane, then 1 and 3, as 16-bit integers: vpmaddubsw on bytes would saturate. */
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    const __m512i even_weights = _mm512_and_si512(weights, _mm512_set1_epi16(0xff));
    const __m512i even_inputs = _mm512_srai_epi16(_mm512_slli_epi16(inputs, 8), 8);
    const __m512i odd_weights = _mm512_srli_epi16(weights, 8), odd_inputs = _mm512_srai_epi16(inputs, 8);
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(even_weights, even_inputs));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(odd_weights, odd_inputs));
}
#endif

#endif
