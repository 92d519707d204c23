/* A block: the operands of some rows × some panels. Included after the vectors of a level and the constants that
 * blocks.h names. */
#ifndef BLOCK_H
#define BLOCK_H

#include "gemm/multiply.h"

#define ALWAYS static inline __attribute__((always_inline))
#define EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < count; i++)

enum { MOST_ROWS = 8, WORD = 4 };

/* Lines of a panel that are multiplied with all rows before the next lines: those of a few panels, and the lines
 * prefetched for later, fit a core's own cache. */
enum { SPAN_LINES = 512 };

/* The operands of a block: the weights of its first panel, the inputs of its first row, and the strides to the next. */
typedef struct Block {
    const char *weights, *inputs;
    size_t panel_bytes, row_bytes;
    const char *prefetch;   /* weights to prefetch meanwhile, for each panel */
    size_t prefetch_bytes;  /* for each line that is computed */
    const float *input_scales;
    const int32_t *input_sums;
    const char *weight_scales;
    size_t scale_bytes;     /* per panel */
    int groups;             /* per row */
    int group, span;        /* the groups in this block: the first, and their number */
    int accumulates, ends;  /* out has the sums of earlier groups; these are the last groups */
    int outputs;            /* from the block's first panel to the end of the matrix */
    float *out;
    ptrdiff_t stride;
} Block;

ALWAYS void store(const Block *block, int row, int panel, Floats sum)
{
    const int remaining = block->outputs - panel * PANEL;
    const int count = remaining < PANEL ? remaining : PANEL;
    floats_store_some(block->out + row * block->stride + panel * PANEL, sum, count);
}

ALWAYS Floats begin(const Block *block, int row, int panel)
{
    return block->accumulates ? floats_load(block->out + row * block->stride + panel * PANEL) : floats_all(0);
}

/* Prefetch the next line of each panel at `prefetch`. */
ALWAYS void fetch(const Block *block, const char **prefetch, const int panels)
{
    EACH(p, panels) __builtin_prefetch(*prefetch + p * block->panel_bytes, 0, PREFETCH_LOCALITY);
    *prefetch += block->prefetch_bytes;
}

#endif
