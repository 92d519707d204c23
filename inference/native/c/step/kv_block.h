/* Keys and values in 8 bits. A head is a row of blocks: GROUP integers and their scale, as in ggml's Q8_0. */
#ifndef KV_BLOCK_H
#define KV_BLOCK_H

#include "panel.h"
#include "rounding.h"
#include "simd/half.h"
#include "simd/lanes.h"

typedef struct KVBlock {
    uint16_t scale;             /* float16; a value is scale × integer; NaN if a value was not finite */
    int8_t values[GROUP];       /* zeros behind the last value of the head */
} KVBlock;

/* Bytes of a head in the pages. kv_dtype: F32, BF16 or Q8_0. */
static inline size_t kv_head_bytes(int kv_dtype, int head_dim)
{
    if (kv_dtype == Q8_0)
        return ceil_div(head_dim, GROUP) * sizeof(KVBlock);
    return (size_t)head_dim * dtype_bytes(kv_dtype);
}

/* LANES values of a head from `value` on, a multiple of LANES. */
static inline Lanes kv_blocks_load(const KVBlock *head, unsigned value)
{
    const KVBlock *block = &head[value / GROUP];
    return lanes_load_bytes(block->values + value % GROUP) * half_read(block->scale);
}

/* Quantize a head (head_dim,): the largest absolute value of a block becomes 127. */
void kv_blocks_write(KVBlock *head, const float *from, int head_dim);

#endif
