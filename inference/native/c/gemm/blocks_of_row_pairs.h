/* Blocks of two or more rows in pairs, where the level multiplies two rows at a time; the last one of an odd number of
 * rows is multiplied alone. One panel at a time. Included by blocks.h and blocks_of_integers.h.
 */
#ifndef BLOCKS_OF_ROW_PAIRS_H
#define BLOCKS_OF_ROW_PAIRS_H

#include "gemm/block.h"
#include "gemm/codes.h"
#include "simd/row_pairs_neon.h"

_Static_assert(FLOAT_PANELS == 1 && INT_PANELS == 1, "one panel at a time");

/* BF16. */
ALWAYS void block_of_row_pairs(const Block *block, const int rows)
{
    FloatPairs sums[MOST_ROWS / 2];
    Floats last = begin(block, rows - 1, 0);
    EACH(i, rows / 2) sums[i] = float_pairs(begin(block, 2 * i, 0), begin(block, 2 * i + 1, 0));
    const char *prefetch = block->prefetch;
    for (int k = 0; k < block->span * BITS[BF16]; k += 2) {
        const char *line = block->weights + (size_t)k * LINE_BYTES;
        const char *inputs = block->inputs + (size_t)k * PAIR_BYTES;
        const Words first = words_load(line), second = words_load(line + LINE_BYTES);
        const LinePair weights = line_pair(first, second);
        EACH(i, 2) fetch(block, &prefetch, 1);
        EACH(i, rows / 2)
            sums[i] = float_pairs_plus(sums[i], weights, row_pair(inputs + 2 * i * block->row_bytes, block->row_bytes));
        if (rows % 2) {
            const char *input = inputs + (rows - 1) * block->row_bytes;
            last = pairs_plus(pairs_plus(last, first, input), second, input + PAIR_BYTES);
        }
    }
    EACH(i, rows / 2) {
        store(block, 2 * i, 0, floats_of_first(sums[i]));
        store(block, 2 * i + 1, 0, floats_of_second(sums[i]));
    }
    if (rows % 2)
        store(block, rows - 1, 0, last);
}

/* The first quad of pair i, in an order in which those that share the lines of the widest plane follow each other. */
ALWAYS int quad_pair_at(const int bits, const int i)
{
    const int width = bits >= 8 ? 8 : bits >= 4 ? 4 : 2, sharing = QUADS / width;
    return 2 * (i / sharing + i % sharing * (width / 2));
}

/* As add_quads. */
ALWAYS void add_quads_of_row_pairs(const Block *block, const int kind, int group, const int half,
                                   Ints sums[MOST_ROWS][INT_PANELS], const int rows, const char **prefetch)
{
    const int bits = BITS[kind], pairs = QUADS / scales_per_group(kind) / 2;
    const char *lines = block->weights + (size_t)group * bits * LINE_BYTES;
    const char *inputs = block->inputs + (size_t)group * GROUP;
    IntPairs of_pairs[MOST_ROWS / 2];
    EACH(i, rows / 2) of_pairs[i] = int_pairs(sums[2 * i][0], sums[2 * i + 1][0]);
    EACH(i, pairs) {
        const int q = has_half_scales(kind) ? 2 * (half * pairs + i) : quad_pair_at(bits, i);
        const Words first = codes_of(lines, kind, q), second = codes_of(lines, kind, q + 1);
        const LinePair weights = line_pair(first, second);
        EACH(j, 2) {
            const int number = 2 * (half * pairs + i) + j;
            if (number < bits)
                fetch(block, prefetch, 1);
        }
        EACH(r, rows / 2) {
            const char *row = inputs + 2 * r * block->row_bytes + q * WORD;
            of_pairs[r] = int_pairs_plus(of_pairs[r], weights, row_pair(row, block->row_bytes));
        }
        if (rows % 2) {
            const char *row = inputs + (rows - 1) * block->row_bytes + q * WORD;
            Ints *last = &sums[rows - 1][0];
            *last = quads_plus(quads_plus(*last, first, words_all(row)), second, words_all(row + WORD));
        }
    }
    EACH(i, rows / 2) {
        sums[2 * i][0] = ints_of_first(of_pairs[i]);
        sums[2 * i + 1][0] = ints_of_second(of_pairs[i]);
    }
}

#endif
