/* Products of two rows at a time, by the matrix instructions of I8MM and BF16: each multiplies eight bytes of two outputs
 * with those of two rows, and adds to four sums. It does the work of two dot products.
 *
 * Sums of integers are exact, and those of floats have the order of the dot products (Arm ARM, BFMatMulAdd): they are
 * the same for a row alone.
 */
#ifndef ROW_PAIRS_NEON_H
#define ROW_PAIRS_NEON_H

#include "simd/vectors_neon.h"

/* Two lines of weights: for each pair of outputs, eight bytes of the first and eight of the second. */
typedef struct { uint8x16_t reg[PANEL / 2]; } LinePair;

/* Sums of two rows: for each pair of outputs, both rows' of the first and both rows' of the second. */
typedef struct { int32x4_t reg[PANEL / 2]; } IntPairs;
typedef struct { float32x4_t reg[PANEL / 2]; } FloatPairs;

#define ZIP(i, first, second) \
    [i] = vreinterpretq_u8_u32(vzip1q_u32(first, second)), [i + 1] = vreinterpretq_u8_u32(vzip2q_u32(first, second))

static inline LinePair line_pair(Words x, Words y)
{
    return (LinePair){{ZIP(0, x.a, y.a), ZIP(2, x.b, y.b), ZIP(4, x.c, y.c), ZIP(6, x.d, y.d)}};
}

/* Eight bytes of a row, and of the one `row_bytes` behind. */
static inline uint8x16_t row_pair(const char *inputs, size_t row_bytes)
{
    const uint8_t *first = (const uint8_t *)inputs;
    return vcombine_u8(vld1_u8(first), vld1_u8(first + row_bytes));
}

static inline IntPairs int_pairs_plus(IntPairs sums, LinePair weights, uint8x16_t inputs)
{
    for (int i = 0; i < PANEL / 2; i++)
        sums.reg[i] = vusmmlaq_s32(sums.reg[i], weights.reg[i], vreinterpretq_s8_u8(inputs));
    return sums;
}

static inline FloatPairs float_pairs_plus(FloatPairs sums, LinePair weights, uint8x16_t inputs)
{
    for (int i = 0; i < PANEL / 2; i++)
        sums.reg[i] = vbfmmlaq_f32(sums.reg[i], vreinterpretq_bf16_u8(weights.reg[i]), vreinterpretq_bf16_u8(inputs));
    return sums;
}

static inline FloatPairs float_pairs(Floats x, Floats y)
{
    return (FloatPairs){{vzip1q_f32(x.a, y.a), vzip2q_f32(x.a, y.a), vzip1q_f32(x.b, y.b), vzip2q_f32(x.b, y.b),
                         vzip1q_f32(x.c, y.c), vzip2q_f32(x.c, y.c), vzip1q_f32(x.d, y.d), vzip2q_f32(x.d, y.d)}};
}

static inline Floats floats_of_first(FloatPairs pairs)
{
    return (Floats){vuzp1q_f32(pairs.reg[0], pairs.reg[1]), vuzp1q_f32(pairs.reg[2], pairs.reg[3]),
                    vuzp1q_f32(pairs.reg[4], pairs.reg[5]), vuzp1q_f32(pairs.reg[6], pairs.reg[7])};
}

static inline Floats floats_of_second(FloatPairs pairs)
{
    return (Floats){vuzp2q_f32(pairs.reg[0], pairs.reg[1]), vuzp2q_f32(pairs.reg[2], pairs.reg[3]),
                    vuzp2q_f32(pairs.reg[4], pairs.reg[5]), vuzp2q_f32(pairs.reg[6], pairs.reg[7])};
}

static inline IntPairs int_pairs(Ints x, Ints y)
{
    return (IntPairs){{vzip1q_s32(x.a, y.a), vzip2q_s32(x.a, y.a), vzip1q_s32(x.b, y.b), vzip2q_s32(x.b, y.b),
                       vzip1q_s32(x.c, y.c), vzip2q_s32(x.c, y.c), vzip1q_s32(x.d, y.d), vzip2q_s32(x.d, y.d)}};
}

static inline Ints ints_of_first(IntPairs pairs)
{
    return (Ints){vuzp1q_s32(pairs.reg[0], pairs.reg[1]), vuzp1q_s32(pairs.reg[2], pairs.reg[3]),
                  vuzp1q_s32(pairs.reg[4], pairs.reg[5]), vuzp1q_s32(pairs.reg[6], pairs.reg[7])};
}

static inline Ints ints_of_second(IntPairs pairs)
{
    return (Ints){vuzp2q_s32(pairs.reg[0], pairs.reg[1]), vuzp2q_s32(pairs.reg[2], pairs.reg[3]),
                  vuzp2q_s32(pairs.reg[4], pairs.reg[5]), vuzp2q_s32(pairs.reg[6], pairs.reg[7])};
}

#endif
