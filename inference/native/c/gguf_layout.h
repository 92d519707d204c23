/* The quantized formats of GGUF files, whose values and scales keep their bits in panels.
 *
 * A value is scale × (code - zero) - min. Codes are unsigned. Those of a group are stored as lines of four inputs of
 * each output: bytes in INT8's order (Q8_0), or nibbles in INT4's order, in Q6_K followed by two lines of the upper two
 * bits. Scales are adjacent for all outputs of a panel: float16 for each group (Q8_0, Q4_0), or the structs below for
 * each block of SUPER_GROUPS groups. The formats are those of llama.cpp (ggml/src/ggml-common.h).
 */
#ifndef GGUF_LAYOUT_H
#define GGUF_LAYOUT_H

#include <stdint.h>

#include "panel.h"

enum { SUPER_GROUPS = 8, SIX_BITS = 12, Q6_ZERO = 32 };    /* groups of a block of Q4_K or Q6_K; bytes of its scales */

/* The scales of a block of Q4_K: SUPER_GROUPS six-bit scales and minima, packed as in the file. */
typedef struct ScalesQ4K {
    uint8_t six_bits[SIX_BITS][PANEL];
    uint16_t scale[PANEL], min[PANEL];      /* float16: factors of the six-bit integers */
} ScalesQ4K;

/* The scales of a block of Q6_K: one for each half of a group. */
typedef struct ScalesQ6K {
    int8_t halves[2 * SUPER_GROUPS][PANEL];
    uint16_t scale[PANEL];                  /* float16 */
} ScalesQ6K;

static inline int is_gguf(int dtype)
{
    return dtype >= Q8_0;
}

#endif
