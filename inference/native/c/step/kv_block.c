/* The quantization of q8_0.py, and of ggml's quantize_row_q8_0_ref (ggml-quants.c) up to ties. */
#include "step/kv_block.h"

/* The largest absolute value; NaN if one of the values is not finite. */
static float largest_of(const float *values)
{
    const Lanes first = lanes_load(values), second = lanes_load(values + LANES);
    const float zero = lanes_sum(first * 0 + second * 0);
    return zero + lanes_largest(lanes_larger(lanes_larger(first, -first), lanes_larger(second, -second)));
}

static void write_block(KVBlock *block, const float *values)
{
    const float largest = largest_of(values), inverse = largest > 1e-30f ? 127 / largest : 0;
    for (int k = 0; k < GROUP; k += LANES) {
        const Lanes nearest = lanes_nearest(lanes_load(values + k) * inverse);
        const ByteLanes integers = __builtin_convertvector(__builtin_convertvector(nearest, IntLanes), ByteLanes);
        memcpy(block->values + k, &integers, sizeof integers);
    }
    block->scale = half_round(largest / 127);
}

void kv_blocks_write(KVBlock *head, const float *from, int head_dim)
{
    float padded[GROUP];
    for (; head_dim >= GROUP; head_dim -= GROUP, from += GROUP)
        write_block(head++, from);
    if (!head_dim)
        return;
    memset(padded, 0, sizeof padded);
    memcpy(padded, from, head_dim * sizeof(float));
    write_block(head, padded);
}
