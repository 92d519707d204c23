/* The scales of a group in GGUF's formats, as vectors of a panel's outputs. Included after the vectors of a level. */
#ifndef GGUF_SCALES_H
#define GGUF_SCALES_H

#include "packing/gguf_layout.h"

typedef uint8_t Bytes __attribute__((vector_size(PANEL)));

/* Of a group, or of half a group. `min` only if has_minima. */
typedef struct GroupScales {
    Floats scale, min;
} GroupScales;

static inline Bytes bytes_load(const void *from)
{
    Bytes bytes;
    __builtin_memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* (integers - zero) × factors. */
static inline Floats scaled(Bytes integers, int zero, const uint16_t factors[PANEL])
{
    const Floats unsigned_integers = floats_of_bytes((const uint8_t *)&integers);
    const Floats signed_integers = floats_plus_product(floats_all(-zero), unsigned_integers, floats_all(1));
    return floats_times(signed_integers, floats_of_halves(factors));
}

static inline GroupScales scales_q2_k(const ScalesQ2K *scales, int half)
{
    const Bytes both = bytes_load(scales->nibbles[half]);
    return (GroupScales){scaled(both & 15, 0, scales->scale), scaled(both >> 4, 0, scales->min)};
}

static inline GroupScales scales_q3_k(const ScalesQ3K *scales, int half)
{
    const Bytes both = bytes_load(scales->six_bits[half % 8]), highs = bytes_load(scales->six_bits[8 + half % 4]);
    const Bytes low = half < 8 ? both & 15 : both >> 4;
    return (GroupScales){.scale = scaled(low | (highs >> half / 4 * 2 & 3) << 4, 32, scales->scale)};
}

static inline GroupScales scales_q4_k(const ScalesQ4K *scales, int group)
{
    const int later = group >= 4;
    const Bytes both = bytes_load(scales->six_bits[group + 4]);
    const Bytes scale_bits = bytes_load(scales->six_bits[later ? group - 4 : group]);
    const Bytes min_bits = bytes_load(scales->six_bits[later ? group : group + 4]);
    const Bytes scale = later ? (both & 15) | scale_bits >> 6 << 4 : scale_bits & 63;
    const Bytes min = later ? both >> 4 | min_bits >> 6 << 4 : min_bits & 63;
    return (GroupScales){scaled(scale, 0, scales->scale), scaled(min, 0, scales->min)};
}

static inline GroupScales scales_q6_k(const ScalesQ6K *scales, int half)
{
    return (GroupScales){.scale = scaled(bytes_load(scales->halves[half]) ^ 128, 128, scales->scale)};
}

static inline GroupScales scales_iq4_xs(const ScalesIQ4XS *scales, int group)
{
    const Bytes low = bytes_load(scales->low[group / 2]) >> group % 2 * 4 & 15;
    const Bytes high = bytes_load(scales->high[group / 4]) >> group % 4 * 2 & 3;
    return (GroupScales){.scale = scaled(low | high << 4, 32, scales->scale)};
}

/* 2 to the power exponent - 128, as bfloat16; the two least powers are subnormal. */
static inline GroupScales scales_mxfp4(const ScalesMXFP4 *scales)
{
    enum { FRACTION = 7, LEAST = 1 << 5 };
    typedef int16_t Bfloats __attribute__((vector_size(2 * PANEL)));
    const Bfloats exponent = __builtin_convertvector(bytes_load(scales->exponent), Bfloats), subnormal = exponent < 2;
    const Bfloats powers = (subnormal & LEAST << exponent) | (~subnormal & (exponent - 1) << FRACTION);
    return (GroupScales){.scale = floats_of_bfloats((const uint16_t *)&powers)};
}

/* The scales of a group of a panel whose scales begin at `scales`; of half a group if has_half_scales. */
static inline __attribute__((always_inline)) GroupScales gguf_scales(const int dtype, const void *scales, int group,
                                                                     const int half)
{
    const int within = group % SUPER_GROUPS;
    const void *block = (const char *)scales + group / BLOCK_GROUPS[dtype] * BLOCK_SCALE_BYTES[dtype];
    const ScalesAndMinima *both = block;
    switch (dtype) {
    case Q4_1: case Q5_1: return (GroupScales){floats_of_halves(both->scale), floats_of_halves(both->min)};
    case Q2_K: return scales_q2_k(block, 2 * within + half);
    case Q3_K: return scales_q3_k(block, 2 * within + half);
    case Q4_K: case Q5_K: return scales_q4_k(block, within);
    case Q6_K: return scales_q6_k(block, 2 * within + half);
    case IQ4_XS: return scales_iq4_xs(block, within);
    case MXFP4: return scales_mxfp4(block);
    default: return (GroupScales){.scale = floats_of_halves(block)};
    }
}

#endif
