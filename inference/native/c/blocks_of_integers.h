/* Blocks of 8-bit inputs and integer weights: products in 32-bit integers within a group of inputs, in floats across
 * groups. */
#ifndef BLOCKS_OF_INTEGERS_H
#define BLOCKS_OF_INTEGERS_H

#include "block.h"
#include "gguf_scales.h"
#include "quantize.h"

/* What is added to the integers of a weight to store them unsigned. */
static const int ZERO[] = {
    [INT8] = INT8_ZERO, [INT4] = INT4_ZERO, [Q8_0] = INT8_ZERO, [Q4_0] = INT4_ZERO, [Q4_K] = 0, [Q6_K] = Q6_ZERO,
};

/* The sum of a row's integers in a group. */
ALWAYS int input_sum(const Block *block, int row, int group)
{
    const int32_t *sums = block->input_sums + 2 * ((size_t)row * block->groups + group);
    return sums[0] + sums[1];
}

/* What the sum of a group begins with, because its weights are stored unsigned. */
ALWAYS int start_of(const Block *block, const int kind, int row, int group)
{
    return -ZERO[kind] * input_sum(block, row, group);
}

/* Add the products of a group. A line has the weights of a quad of inputs, or of two quads as nibbles. */
ALWAYS void add_group(const Block *block, const int nibbles, int group, Ints sums[MOST_ROWS][INT_PANELS],
                      const int rows, const int panels, const char **prefetch)
{
    const char *weights = block->weights + (size_t)group * (TILE >> nibbles);
    const char *inputs = block->inputs + (size_t)group * GROUP;
    EACH(q, GROUP / 4 >> nibbles) {
        Words lines[INT_PANELS];
        EACH(p, panels) lines[p] = words_load(weights + q * LINE_BYTES + p * block->panel_bytes);
        fetch(block, ALONE(rows, INT_ROWS), weights + q * LINE_BYTES, prefetch, panels);
        EACH(r, rows) {
            const char *quad = inputs + r * block->row_bytes + q * WORD;
            const Words first = words_all(quad);
            EACH(p, panels) sums[r][p] = quads_plus(sums[r][p], nibbles ? words_low_halves(lines[p]) : lines[p], first);
            if (nibbles) {
                const Words second = words_all(quad + GROUP / 2);
                EACH(p, panels) sums[r][p] = quads_plus(sums[r][p], words_high_halves(lines[p]), second);
            }
        }
    }
}

/* The scales of the weights of a group, and Q4_K's minima. */
typedef struct GroupScales {
    Floats scale, min;
} GroupScales;

/* INT8's scales are the same for all groups: block_of_integers applies them last. */
ALWAYS GroupScales scales_of(const Block *block, const int kind, int group, int panel)
{
    const char *scales = block->weight_scales + panel * block->scale_bytes;
    const int number = block->group + group, within = number % SUPER_GROUPS;
    const uint16_t *halves = (const uint16_t *)scales + number * PANEL;
    const ScalesQ4K *fours = (const ScalesQ4K *)scales + number / SUPER_GROUPS;
    switch (kind) {
    case INT4: return (GroupScales){.scale = floats_of_bfloats(halves)};
    case Q8_0: case Q4_0: return (GroupScales){.scale = floats_of_halves(halves)};
    case Q4_K: return (GroupScales){six_bit_scales(fours, within), six_bit_minima(fours, within)};
    default: return (GroupScales){.scale = floats_all(1)};
    }
}

/* sum + integers × scales. */
ALWAYS Floats add_scaled(const Block *block, const int kind, Floats sum, Ints ints, GroupScales scales, int group,
                         int row)
{
    const float scale = block->input_scales[(size_t)row * block->groups + group];
    const Floats factor = kind == INT8 ? floats_all(scale) : floats_times(scales.scale, floats_all(scale));
    sum = floats_plus_product(sum, floats_of_ints(ints), factor);
    return kind == Q4_K ? floats_plus_product(sum, scales.min, floats_all(-scale * input_sum(block, row, group))) : sum;
}

/* Q6_K: add the products of half a group, whose weights have a scale of their own. */
ALWAYS void add_half(const Block *block, int group, const int half, Floats sums[MOST_ROWS][INT_PANELS], const int rows,
                     const int panels, const char **prefetch)
{
    enum { NIBBLES = GROUP / 8, HIGHS = 2 };
    const char *weights = block->weights + (size_t)group * (NIBBLES + HIGHS) * LINE_BYTES;
    const char *inputs = block->inputs + (size_t)group * GROUP + half * (GROUP / 2);
    const int32_t *input_sums = block->input_sums + 2 * group + half;
    Ints ints[MOST_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) ints[r][p] = ints_all(-Q6_ZERO * input_sums[2 * (size_t)r * block->groups]);
    EACH(q, NIBBLES) {
        Words codes[INT_PANELS];
        EACH(p, panels) {
            const char *panel = weights + p * block->panel_bytes;
            const Words both = words_load(panel + q * LINE_BYTES);
            const Words highs = words_load(panel + (NIBBLES + half) * LINE_BYTES);
            codes[p] = words_sixes(half ? words_high_halves(both) : words_low_halves(both), highs, 2 * q);
        }
        if (half * NIBBLES + q < NIBBLES + HIGHS)
            fetch(block, ALONE(rows, INT_ROWS), weights + (half * NIBBLES + q) * LINE_BYTES, prefetch, panels);
        EACH(r, rows) {
            const Words quad = words_all(inputs + r * block->row_bytes + q * WORD);
            EACH(p, panels) ints[r][p] = quads_plus(ints[r][p], codes[p], quad);
        }
    }
    const int number = block->group + group;
    EACH(p, panels) {
        const ScalesQ6K *sixes = (const ScalesQ6K *)(block->weight_scales + p * block->scale_bytes);
        const GroupScales scales = {half_scales(sixes + number / SUPER_GROUPS, number % SUPER_GROUPS * 2 + half)};
        EACH(r, rows) sums[r][p] = add_scaled(block, Q6_K, sums[r][p], ints[r][p], scales, group, r);
    }
}

/* Sums are exact integers within a group, and floats across groups. */
ALWAYS void block_of_integers(const Block *block, const int kind, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const char *prefetch = block->prefetch;
    for (int g = 0; g < block->span; g++) {
        if (kind == Q6_K) {
            add_half(block, g, 0, sums, rows, panels, &prefetch);
            add_half(block, g, 1, sums, rows, panels, &prefetch);
            continue;
        }
        Ints ints[MOST_ROWS][INT_PANELS];
        EACH(r, rows) EACH(p, panels) ints[r][p] = ints_all(start_of(block, kind, r, g));
        add_group(block, kind != INT8 && kind != Q8_0, g, ints, rows, panels, &prefetch);
        EACH(p, panels) {
            const GroupScales scales = scales_of(block, kind, g, p);
            EACH(r, rows) sums[r][p] = add_scaled(block, kind, sums[r][p], ints[r][p], scales, g, r);
        }
    }
    EACH(p, panels) {
        const float *scales = (const float *)(block->weight_scales + p * block->scale_bytes);
        const int scaled = kind != INT8 || !block->ends;
        EACH(r, rows) store(block, r, p, scaled ? sums[r][p] : floats_times(sums[r][p], floats_load(scales)));
    }
}

#endif
