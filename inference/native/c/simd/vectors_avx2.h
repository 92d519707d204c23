/* Vectors of a panel's width in AVX2: two registers each. bfloat16 weights are widened before the products; so are
 * bytes, where the level has no VNNI. */
#ifndef VECTORS_H
#define VECTORS_H

#include <immintrin.h>
#include <stdint.h>

#include "panel.h"

enum { HALF = PANEL / 2 };

typedef struct { __m256 low, high; } Floats;
typedef struct { __m256i low, high; } Ints;
typedef Ints Words;

static inline Floats floats_all(float value)
{
    const __m256 all = _mm256_set1_ps(value);
    return (Floats){all, all};
}

static inline Floats floats_load(const float *from)
{
    return (Floats){_mm256_loadu_ps(from), _mm256_loadu_ps(from + HALF)};
}

/* A mask of the first `count` of eight lanes. */
static inline __m256i lanes_below(int count)
{
    const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), numbers);
}

/* Store the first `count` lanes. */
static inline void floats_store_some(float *to, Floats from, int count)
{
    _mm256_maskstore_ps(to, lanes_below(count), from.low);
    _mm256_maskstore_ps(to + HALF, lanes_below(count - HALF), from.high);
}

static inline __m256 wide_bfloats(const uint16_t *from)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline Floats floats_of_bfloats(const uint16_t *from)
{
    return (Floats){wide_bfloats(from), wide_bfloats(from + HALF)};
}

/* From float16. */
static inline Floats floats_of_halves(const uint16_t *from)
{
    const __m128i *halves = (const __m128i *)from;
    return (Floats){_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

static inline __m256 wide_bytes(const uint8_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}

static inline Floats floats_of_bytes(const uint8_t *from)
{
    return (Floats){wide_bytes(from), wide_bytes(from + HALF)};
}

static inline Floats floats_of_ints(Ints ints)
{
    return (Floats){_mm256_cvtepi32_ps(ints.low), _mm256_cvtepi32_ps(ints.high)};
}

static inline Floats floats_times(Floats a, Floats b)
{
    return (Floats){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

static inline Floats floats_plus_product(Floats sum, Floats a, Floats b)
{
    return (Floats){_mm256_fmadd_ps(a.low, b.low, sum.low), _mm256_fmadd_ps(a.high, b.high, sum.high)};
}

static inline Ints ints_all(int32_t value)
{
    const __m256i all = _mm256_set1_epi32(value);
    return (Ints){all, all};
}

static inline Words words_load(const void *from)
{
    const __m256i *halves = from;
    return (Words){_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}

static inline Words words_all(const void *from)
{
    int32_t word;
    __builtin_memcpy(&word, from, sizeof word);
    return ints_all(word);
}

static inline __m256i half_bits(__m256i words, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srli_epi32(words, shift), _mm256_set1_epi8((char)mask));
}

static inline Words words_none(void)
{
    return (Words){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

/* The bits of `mask` of each byte, `shift` bits up. */
static inline Words words_bits(Words words, int shift, int mask)
{
    return (Words){half_bits(words.low, shift, mask), half_bits(words.high, shift, mask)};
}

/* Low bits, and high ones `up` bits up. */
static inline Words words_join(Words lows, Words highs, int up)
{
    return (Words){_mm256_or_si256(lows.low, _mm256_slli_epi32(highs.low, up)),
                   _mm256_or_si256(lows.high, _mm256_slli_epi32(highs.high, up))};
}

/* The entries of a table by codes of four bits. */
static inline Words words_entries(const uint8_t table[16], Words codes)
{
    const __m256i entries = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    return (Words){_mm256_shuffle_epi8(entries, codes.low), _mm256_shuffle_epi8(entries, codes.high)};
}

/* sum + weight × input in each lane, for floats. */
static inline Floats floats_plus(Floats sum, Words weights, Words inputs)
{
    const Floats a = {_mm256_castsi256_ps(weights.low), _mm256_castsi256_ps(weights.high)};
    const Floats b = {_mm256_castsi256_ps(inputs.low), _mm256_castsi256_ps(inputs.high)};
    return floats_plus_product(sum, a, b);
}

static inline __m256 first_of_pairs(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

static inline __m256 second_of_pairs(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

enum { PAIR_BYTES = 8 };    /* two inputs: floats */

/* sum + the products of two bfloat16 weights in each lane with two inputs, the same for all lanes. */
static inline Floats pairs_plus(Floats sum, Words weights, const void *inputs)
{
    const float *pair = inputs;
    const Floats first = {first_of_pairs(weights.low), first_of_pairs(weights.high)};
    const Floats second = {second_of_pairs(weights.low), second_of_pairs(weights.high)};
    sum = floats_plus_product(sum, first, floats_all(pair[0]));
    return floats_plus_product(sum, second, floats_all(pair[1]));
}

#ifdef __AVXVNNI__
static inline __m256i half_quads_plus(__m256i sum, __m256i weights, __m256i inputs)
{
    return _mm256_dpbusd_avx_epi32(sum, weights, inputs);
}
#else
/* Multiply bytes 0 and 2 of each lane, then 1 and 3, as 16-bit integers: vpmaddubsw on bytes would saturate. */
static inline __m256i half_quads_plus(__m256i sum, __m256i weights, __m256i inputs)
{
    const __m256i even_weights = _mm256_and_si256(weights, _mm256_set1_epi16(0xff));
    const __m256i even_inputs = _mm256_srai_epi16(_mm256_slli_epi16(inputs, 8), 8);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even_weights, even_inputs));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_srli_epi16(weights, 8), _mm256_srai_epi16(inputs, 8)));
}
#endif

/* sum + four products of an unsigned weight byte and a signed input byte in each lane. */
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    return (Ints){half_quads_plus(sum.low, weights.low, inputs.low),
                  half_quads_plus(sum.high, weights.high, inputs.high)};
}

#endif
