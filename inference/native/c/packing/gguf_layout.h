/* The quantized formats of GGUF files, whose values and scales keep their bits in panels.
 *
 * A value is scale × (code - zero) - min; the codes of IQ4 and MXFP4 are first replaced by entries of a table. Codes are
 * unsigned, and stored in planes of 8, 4, 2 and 1 bits: those of 6 bits, for example, as a plane of their low 4 bits,
 * then one of the other 2. A plane of so many bits has as many lines, a line 4 bytes for each output: see code_place.
 * Scales are adjacent for all outputs of a panel, in the structs below for each block of the file. The formats are those
 * of llama.cpp (ggml/src/ggml-common.h).
 */
#ifndef GGUF_LAYOUT_H
#define GGUF_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "packing/quantize.h"
#include "panel.h"

enum { QUADS = GROUP / QUAD };                  /* of a group */
enum { WIDEST_PLANE = 8, SUPER_GROUPS = 8 };    /* bits; groups of a block of the K formats and IQ4_XS */

/* Where a plane of `width` bits has quad q of a group: line and bit. */
#define PLANE_LINE(width, q) ((q) % (width))
#define PLANE_SHIFT(width, q) ((q) / (width) * (width))

/* Codes of `width` bits in each byte of a word, which are those of a quad. */
#define PLANE_MASK(width) (0x01010101u * ((1u << (width)) - 1))

/* Q8_0, Q4_0, Q5_0, IQ4_NL. Scales are float16, here and below. */
typedef struct ScalesOnly {
    uint16_t scale[PANEL];
} ScalesOnly;

/* MXFP4: exponents of two, 128 more than those of the scales. */
typedef struct ScalesMXFP4 {
    uint8_t exponent[PANEL];
} ScalesMXFP4;

/* Q4_1 and Q5_1, whose minima have the other sign in the file. */
typedef struct ScalesAndMinima {
    uint16_t scale[PANEL], min[PANEL];
} ScalesAndMinima;

/* Q2_K: a scale (low nibble) and a minimum for each half of a group, and their factors. */
typedef struct ScalesQ2K {
    uint8_t nibbles[2 * SUPER_GROUPS][PANEL];
    uint16_t scale[PANEL], min[PANEL];
} ScalesQ2K;

/* Q3_K: a six-bit scale for each half of a group, packed as in the file. */
typedef struct ScalesQ3K {
    uint8_t six_bits[12][PANEL];
    uint16_t scale[PANEL];
} ScalesQ3K;

/* Q4_K and Q5_K: a six-bit scale and minimum for each group, packed as in the file. */
typedef struct ScalesQ4K {
    uint8_t six_bits[12][PANEL];
    uint16_t scale[PANEL], min[PANEL];
} ScalesQ4K;

/* Q6_K: a scale for each half of a group. */
typedef struct ScalesQ6K {
    int8_t halves[2 * SUPER_GROUPS][PANEL];
    uint16_t scale[PANEL];
} ScalesQ6K;

/* IQ4_XS: a six-bit scale for each group, whose upper two bits are apart. */
typedef struct ScalesIQ4XS {
    uint8_t high[2][PANEL], low[SUPER_GROUPS / 2][PANEL];
    uint16_t scale[PANEL];
} ScalesIQ4XS;

static inline int is_gguf(int dtype)
{
    return dtype >= Q8_0;
}

/* The groups of a block. */
static const int BLOCK_GROUPS[] = {
    [Q8_0] = 1, [Q4_0] = 1, [Q4_1] = 1, [Q5_0] = 1, [Q5_1] = 1, [IQ4_NL] = 1, [MXFP4] = 1,
    [Q2_K] = SUPER_GROUPS, [Q3_K] = SUPER_GROUPS, [Q4_K] = SUPER_GROUPS, [Q5_K] = SUPER_GROUPS, [Q6_K] = SUPER_GROUPS,
    [IQ4_XS] = SUPER_GROUPS,
};

/* The bytes of a panel's scales for a block. */
static const size_t BLOCK_SCALE_BYTES[] = {
    [Q8_0] = sizeof(ScalesOnly), [Q4_0] = sizeof(ScalesOnly), [Q5_0] = sizeof(ScalesOnly),
    [IQ4_NL] = sizeof(ScalesOnly), [Q4_1] = sizeof(ScalesAndMinima), [Q5_1] = sizeof(ScalesAndMinima),
    [Q2_K] = sizeof(ScalesQ2K), [Q3_K] = sizeof(ScalesQ3K), [Q4_K] = sizeof(ScalesQ4K), [Q5_K] = sizeof(ScalesQ4K),
    [Q6_K] = sizeof(ScalesQ6K), [IQ4_XS] = sizeof(ScalesIQ4XS), [MXFP4] = sizeof(ScalesMXFP4),
};

/* Whether each half of a group has a scale of its own. */
static inline int has_half_scales(int dtype)
{
    return dtype == Q2_K || dtype == Q3_K || dtype == Q6_K;
}

static inline int has_minima(int dtype)
{
    return dtype == Q4_1 || dtype == Q5_1 || dtype == Q2_K || dtype == Q4_K || dtype == Q5_K;
}

/* What is subtracted from codes, or from the entries of a table. */
static const int ZERO[] = {
    [INT8] = INT8_ZERO, [INT4] = INT4_ZERO, [Q8_0] = 128, [Q4_0] = 8, [Q4_1] = 0, [Q5_0] = 16, [Q5_1] = 0, [Q2_K] = 0,
    [Q3_K] = 4, [Q4_K] = 0, [Q5_K] = 0, [Q6_K] = 32, [IQ4_NL] = 128, [IQ4_XS] = 128,
    [MXFP4] = 12,
};

static inline int has_entries(int dtype)
{
    return dtype == IQ4_NL || dtype == IQ4_XS || dtype == MXFP4;
}

/* The values of codes (kvalues_iq4nl and kvalues_mxfp4), and ZERO. */
static const uint8_t IQ4_ENTRIES[] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t MXFP4_ENTRIES[] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* The table of a dtype that has_entries. */
static inline const uint8_t *entries_of(int dtype)
{
    return dtype == MXFP4 ? MXFP4_ENTRIES : IQ4_ENTRIES;
}

#endif
