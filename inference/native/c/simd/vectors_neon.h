/* Vectors of a panel's width in NEON: four registers each. Products of bfloat16 and of bytes are single instructions
 * where the level has BF16 and I8MM; else the factors are widened or shifted first. */
#ifndef VECTORS_H
#define VECTORS_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "panel.h"

enum { QUARTER = PANEL / 4 };

typedef struct { float32x4_t a, b, c, d; } Floats;
typedef struct { int32x4_t a, b, c, d; } Ints;
typedef struct { uint32x4_t a, b, c, d; } Words;

static inline Floats floats_all(float value)
{
    const float32x4_t all = vdupq_n_f32(value);
    return (Floats){all, all, all, all};
}

static inline Floats floats_load(const float *from)
{
    return (Floats){vld1q_f32(from), vld1q_f32(from + QUARTER), vld1q_f32(from + 2 * QUARTER),
                    vld1q_f32(from + 3 * QUARTER)};
}

static inline void floats_store(float *to, Floats from)
{
    vst1q_f32(to, from.a);
    vst1q_f32(to + QUARTER, from.b);
    vst1q_f32(to + 2 * QUARTER, from.c);
    vst1q_f32(to + 3 * QUARTER, from.d);
}

/* Store the first `count` lanes. */
static inline void floats_store_some(float *to, Floats from, int count)
{
    float lanes[PANEL];
    if (count >= PANEL) {
        floats_store(to, from);
        return;
    }
    floats_store(lanes, from);
    memcpy(to, lanes, count * sizeof(float));
}

static inline float32x4_t wide_bfloats(const uint16_t *from)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
}

static inline Floats floats_of_bfloats(const uint16_t *from)
{
    return (Floats){wide_bfloats(from), wide_bfloats(from + QUARTER), wide_bfloats(from + 2 * QUARTER),
                    wide_bfloats(from + 3 * QUARTER)};
}

static inline float32x4_t wide_halves(const uint16_t *from)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
}

/* From float16. */
static inline Floats floats_of_halves(const uint16_t *from)
{
    return (Floats){wide_halves(from), wide_halves(from + QUARTER), wide_halves(from + 2 * QUARTER),
                    wide_halves(from + 3 * QUARTER)};
}

static inline Floats floats_of_bytes(const uint8_t *from)
{
    const uint8x16_t bytes = vld1q_u8(from);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    return (Floats){vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_high_u16(low)),
                    vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_high_u16(high))};
}

static inline Floats floats_of_ints(Ints ints)
{
    return (Floats){vcvtq_f32_s32(ints.a), vcvtq_f32_s32(ints.b), vcvtq_f32_s32(ints.c), vcvtq_f32_s32(ints.d)};
}

static inline Floats floats_times(Floats x, Floats y)
{
    return (Floats){x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d};
}

static inline Floats floats_plus_product(Floats sum, Floats x, Floats y)
{
    return (Floats){vfmaq_f32(sum.a, x.a, y.a), vfmaq_f32(sum.b, x.b, y.b), vfmaq_f32(sum.c, x.c, y.c),
                    vfmaq_f32(sum.d, x.d, y.d)};
}

static inline Ints ints_all(int32_t value)
{
    const int32x4_t all = vdupq_n_s32(value);
    return (Ints){all, all, all, all};
}

static inline uint32x4_t quarter_load(const uint8_t *from)
{
    return vreinterpretq_u32_u8(vld1q_u8(from));
}

/* By quarters: gcc would copy a struct by way of the stack. */
static inline Words words_load(const void *from)
{
    const uint8_t *bytes = from;
    return (Words){quarter_load(bytes), quarter_load(bytes + 4 * QUARTER), quarter_load(bytes + 8 * QUARTER),
                   quarter_load(bytes + 12 * QUARTER)};
}

static inline Words words_all(const void *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
    const uint32x4_t all = vdupq_n_u32(word);
    return (Words){all, all, all, all};
}

static inline Words words_none(void)
{
    const uint32x4_t none = vdupq_n_u32(0);
    return (Words){none, none, none, none};
}

/* The highest bits of a byte need no mask. */
static inline uint32x4_t quarter_bits(uint32x4_t words, int shift, int mask)
{
    const uint8x16_t bytes = vreinterpretq_u8_u32(words) >> shift;
    return vreinterpretq_u32_u8(mask == 255 >> shift ? bytes : bytes & vdupq_n_u8(mask));
}

/* The bits of `mask` of each byte, `shift` bits up. */
static inline Words words_bits(Words words, int shift, int mask)
{
    return (Words){quarter_bits(words.a, shift, mask), quarter_bits(words.b, shift, mask),
                   quarter_bits(words.c, shift, mask), quarter_bits(words.d, shift, mask)};
}

/* Low bits, and high ones `up` bits up. */
static inline Words words_join(Words lows, Words highs, int up)
{
    return (Words){lows.a | highs.a << up, lows.b | highs.b << up, lows.c | highs.c << up, lows.d | highs.d << up};
}

static inline uint32x4_t quarter_entries(uint8x16_t entries, uint32x4_t codes)
{
    return vreinterpretq_u32_u8(vqtbl1q_u8(entries, vreinterpretq_u8_u32(codes)));
}

/* The entries of a table by codes of four bits. */
static inline Words words_entries(const uint8_t table[16], Words codes)
{
    const uint8x16_t entries = vld1q_u8(table);
    return (Words){quarter_entries(entries, codes.a), quarter_entries(entries, codes.b),
                   quarter_entries(entries, codes.c), quarter_entries(entries, codes.d)};
}

static inline Floats floats_of_words(Words words)
{
    return (Floats){vreinterpretq_f32_u32(words.a), vreinterpretq_f32_u32(words.b), vreinterpretq_f32_u32(words.c),
                    vreinterpretq_f32_u32(words.d)};
}

/* sum + weight × input in each lane, for floats. */
static inline Floats floats_plus(Floats sum, Words weights, Words inputs)
{
    return floats_plus_product(sum, floats_of_words(weights), floats_of_words(inputs));
}

/* sum + the products of two bfloat16 weights in each lane with two inputs, the same for all lanes. */
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
enum { PAIR_BYTES = 4 };    /* two inputs: bfloat16 */

static inline float32x4_t quarter_pairs_plus(float32x4_t sum, uint32x4_t weights, uint32x4_t inputs)
{
    return vbfdotq_f32(sum, vreinterpretq_bf16_u32(weights), vreinterpretq_bf16_u32(inputs));
}

static inline Floats pairs_plus(Floats sum, Words weights, const void *inputs)
{
    const Words pair = words_all(inputs);
    return (Floats){quarter_pairs_plus(sum.a, weights.a, pair.a), quarter_pairs_plus(sum.b, weights.b, pair.b),
                    quarter_pairs_plus(sum.c, weights.c, pair.c), quarter_pairs_plus(sum.d, weights.d, pair.d)};
}
#else
enum { PAIR_BYTES = 8 };    /* two inputs: floats */

static inline Floats pairs_plus(Floats sum, Words weights, const void *inputs)
{
    const float *pair = inputs;
    const uint32x4_t upper = vdupq_n_u32(0xffff0000);
    const Words first = {weights.a << 16, weights.b << 16, weights.c << 16, weights.d << 16};
    const Words second = {weights.a & upper, weights.b & upper, weights.c & upper, weights.d & upper};
    return floats_plus(floats_plus(sum, first, words_all(pair)), second, words_all(pair + 1));
}
#endif

#ifdef __ARM_FEATURE_MATMUL_INT8
static inline int32x4_t quarter_quads_plus(int32x4_t sum, uint8x16_t weights, int8x16_t inputs)
{
    return vusdotq_s32(sum, weights, inputs);
}
#elif defined(__ARM_FEATURE_DOTPROD)
/* As signed bytes, the weights are 128 smaller. The compiler computes what is missing once for all quarters. */
static inline int32x4_t quarter_quads_plus(int32x4_t sum, uint8x16_t weights, int8x16_t inputs)
{
    const int8x16_t smaller = vreinterpretq_s8_u8(veorq_u8(weights, vdupq_n_u8(128)));
    const int32x4_t missing = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), inputs);
    return vdotq_s32(sum, smaller, inputs) - missing;
}
#else
/* A product of two bytes fits 16 bits. */
static inline int32x4_t quarter_quads_plus(int32x4_t sum, uint8x16_t weights, int8x16_t inputs)
{
    const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(weights))) * vmovl_s8(vget_low_s8(inputs));
    const int16x8_t high = vreinterpretq_s16_u16(vmovl_high_u8(weights)) * vmovl_high_s8(inputs);
    return sum + vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
}
#endif

static inline int32x4_t quarter_plus(int32x4_t sum, uint32x4_t weights, uint32x4_t inputs)
{
    return quarter_quads_plus(sum, vreinterpretq_u8_u32(weights), vreinterpretq_s8_u32(inputs));
}

/* sum + four products of an unsigned weight byte and a signed input byte in each lane. */
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    return (Ints){quarter_plus(sum.a, weights.a, inputs.a), quarter_plus(sum.b, weights.b, inputs.b),
                  quarter_plus(sum.c, weights.c, inputs.c), quarter_plus(sum.d, weights.d, inputs.d)};
}

#endif
