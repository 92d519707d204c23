/* Blocks of 8-bit inputs and integer weights: products in 32-bit integers within a group of inputs, in floats across
 * groups. */
#ifndef BLOCKS_OF_INTEGERS_H
#define BLOCKS_OF_INTEGERS_H

#include "gemm/block.h"
#include "gemm/codes.h"
#include "packing/gguf_scales.h"
#include "packing/quantize.h"

#ifdef ROW_PAIRS
#include "gemm/blocks_of_row_pairs.h"
#endif

/* The sum of a row's integers that share a scale. */
ALWAYS int input_sum(const Block *block, const int kind, int row, int group, const int half)
{
    const int32_t *sums = block->input_sums + 2 * ((size_t)row * block->groups + group);
    return has_half_scales(kind) ? sums[half] : sums[0] + sums[1];
}

/* What sums of products begin with, because weights are stored unsigned. */
ALWAYS Ints start_of(const Block *block, const int kind, int row, int group, const int half)
{
    return ints_all(-ZERO[kind] * input_sum(block, kind, row, group, half));
}

/* Quad i in an order in which those that share the lines of the widest plane follow each other. */
ALWAYS int quad_at(const int bits, const int i)
{
    const int width = bits >= 8 ? 8 : bits >= 4 ? 4 : 2, sharing = QUADS / width;
    return i / sharing + i % sharing * width;
}

/* Add the products of the quads of a group that share a scale. */
ALWAYS void add_quads(const Block *block, const int kind, int group, const int half, Ints sums[MOST_ROWS][INT_PANELS],
                      const int rows, const int panels, const char **prefetch)
{
    const int bits = BITS[kind], quads = QUADS / scales_per_group(kind);
    const char *weights = block->weights + (size_t)group * bits * LINE_BYTES;
    const char *inputs = block->inputs + (size_t)group * GROUP;
    EACH(i, quads) {
        const int number = half * quads + i, q = has_half_scales(kind) ? number : quad_at(bits, i);
        Words codes[INT_PANELS];
        EACH(p, panels) codes[p] = codes_of(weights + p * block->panel_bytes, kind, q);
        if (number < bits)
            fetch(block, prefetch, panels);
        EACH(r, rows) {
            const Words quad = words_all(inputs + r * block->row_bytes + q * WORD);
            EACH(p, panels) sums[r][p] = quads_plus(sums[r][p], codes[p], quad);
        }
    }
}

/* INT8's scales are the same for all groups: block_of_integers applies them last. */
ALWAYS GroupScales scales_of(const Block *block, const int kind, int group, const int half, int panel)
{
    const char *scales = block->weight_scales + panel * block->scale_bytes;
    const int number = block->group + group;
    switch (kind) {
    case INT8: return (GroupScales){.scale = floats_all(1)};
    case INT4: return (GroupScales){.scale = floats_of_bfloats((const uint16_t *)scales + number * PANEL)};
    default: return gguf_scales(kind, scales, number, half);
    }
}

/* sum + integers × scales - minima × the sum of the inputs. */
ALWAYS Floats add_scaled(const Block *block, const int kind, Floats sum, Ints ints, GroupScales scales, int group,
                         const int half, int row)
{
    const float scale = block->input_scales[(size_t)row * block->groups + group];
    const Floats factor = kind == INT8 ? floats_all(scale) : floats_times(scales.scale, floats_all(scale));
    sum = floats_plus_product(sum, floats_of_ints(ints), factor);
    if (!has_minima(kind))
        return sum;
    return floats_plus_product(sum, scales.min, floats_all(-scale * input_sum(block, kind, row, group, half)));
}

/* Prefetch the scales that a group of the next panels has: few bytes from many places, which the processor does not
 * foresee. */
ALWAYS void fetch_scales(const Block *block, const int kind, int group, const int panels)
{
    const size_t scale_bytes = kind == INT4 ? PANEL * sizeof(uint16_t) : BLOCK_SCALE_BYTES[kind] / BLOCK_GROUPS[kind];
    const char *next = block->weight_scales + panels * block->scale_bytes + (block->group + group) * scale_bytes;
    EACH(p, panels) __builtin_prefetch(next + p * block->scale_bytes, 0, PREFETCH_LOCALITY);
}

/* Add the products of a group, or of half a group if its weights have a scale of their own. */
ALWAYS void add_group(const Block *block, const int kind, int group, const int half, Floats sums[MOST_ROWS][INT_PANELS],
                      const int rows, const int panels, const char **prefetch)
{
    Ints ints[MOST_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) ints[r][p] = start_of(block, kind, r, group, half);
#ifdef ROW_PAIRS
    if (rows > 1)
        add_quads_of_row_pairs(block, kind, group, half, ints, rows, prefetch);
    else
#endif
        add_quads(block, kind, group, half, ints, rows, panels, prefetch);
    if (kind != INT8 && !half)
        fetch_scales(block, kind, group, panels);
    EACH(p, panels) {
        const GroupScales scales = scales_of(block, kind, group, half, p);
        EACH(r, rows) sums[r][p] = add_scaled(block, kind, sums[r][p], ints[r][p], scales, group, half, r);
    }
}

/* Sums are exact integers within a group, and floats across groups. */
ALWAYS void block_of_integers(const Block *block, const int kind, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const char *prefetch = block->prefetch;
    for (int g = 0; g < block->span; g++)
        EACH(half, scales_per_group(kind)) add_group(block, kind, g, half, sums, rows, panels, &prefetch);
    EACH(p, panels) {
        const float *scales = (const float *)(block->weight_scales + p * block->scale_bytes);
        const int scaled = kind != INT8 || !block->ends;
        EACH(r, rows) store(block, r, p, scaled ? sums[r][p] : floats_times(sums[r][p], floats_load(scales)));
    }
}

#endif
