/* The layout of a panel: its width, its groups of inputs, and the formats of its values. */
#ifndef PANEL_H
#define PANEL_H

enum { PANEL = 16, GROUP = 32 };   /* outputs per panel; inputs that share a scale */

enum NativeDtype {
    F32,    /* panels of [inputs][PANEL] floats */
    BF16,   /* [inputs / 2][PANEL][2] */
    INT8,   /* [inputs / 4][PANEL][4]; a float scale for each output */
    INT4,   /* groups of GROUP inputs, two values per byte (see quantize.h); bfloat16 scales [groups][PANEL] */
    Q8_0,   /* the formats of GGUF files with the same bits, see gguf_layout.h */
    Q4_0,
    Q4_K,
    Q6_K,
};

/* Bytes of a value, F32 or BF16. */
static inline int dtype_bytes(int dtype)
{
    return dtype == F32 ? 4 : 2;
}

#endif
