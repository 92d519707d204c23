/* The layout of a panel: its width, its groups of inputs, and the formats of its values. */
#ifndef PANEL_H
#define PANEL_H

enum { PANEL = 16, GROUP = 32 };   /* outputs per panel; inputs that share a scale */
enum { QUAD = 4, LINE_BYTES = PANEL * QUAD };   /* a line has the bytes of QUAD inputs of each output, or as many bits */

enum NativeDtype {
    F32,    /* panels of [inputs][PANEL] floats */
    BF16,   /* [inputs / 2][PANEL][2] */
    F16,    /* [inputs][PANEL] of float16 */
    INT8,   /* [inputs / 4][PANEL][4]; a float scale for each output */
    INT4,   /* groups of GROUP inputs, two values per byte (see quantize.h); bfloat16 scales [groups][PANEL] */
    Q8_0,   /* the formats of GGUF files with the same bits, see gguf_layout.h */
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
};

/* Of a value. A group of a panel has as many lines: a line holds one bit of each of its values. */
static const int BITS[] = {
    [F32] = 32, [BF16] = 16, [F16] = 16, [INT8] = 8, [INT4] = 4,
    [Q8_0] = 8, [Q4_0] = 4, [Q4_1] = 4, [Q5_0] = 5, [Q5_1] = 5, [Q2_K] = 2, [Q3_K] = 3, [Q4_K] = 4, [Q5_K] = 5,
    [Q6_K] = 6, [IQ4_NL] = 4, [IQ4_XS] = 4, [MXFP4] = 4,
};

/* Bytes of a value, F32, BF16 or F16. */
static inline int dtype_bytes(int dtype)
{
    return dtype == F32 ? 4 : 2;
}

#endif
