/* `multiply` in blocks of some rows × some panels, whose sums stay in registers while all inputs go by.
 *
 * Included by each multiply_*.c, behind the vectors of its level and these numbers, which fill its registers:
 * FLOAT_ROWS × FLOAT_PANELS for floats and bfloat16, INT_ROWS × INT_PANELS for integers; AHEAD, the bytes that
 * weights are fetched ahead of their use. A lane is one output, so the order of its additions depends on
 * nothing but the inputs.
 */
#include "multiply.h"
#include "quantise.h"

#define ALWAYS static inline __attribute__((always_inline))
#define EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < count; i++)
#define MOST(a, b) ((a) > (b) ? (a) : (b))

/* Where a block begins: weights of its first panel, inputs of its first row, and how far the next are. */
typedef struct Block {
    const char *weights, *inputs;
    size_t panel_bytes, row_bytes;
    const float *input_scales;
    const int32_t *input_sums;
    const void *weight_scales;
    int groups;
    int outputs;            /* that are left from its first panel on */
    float *out;
    ptrdiff_t stride;
} Block;

enum { WORD = 4, LINE_BYTES = PANEL * WORD };

ALWAYS void store(const Block *block, int row, int panel, Floats sum)
{
    const int left = block->outputs - panel * PANEL;
    float *out = block->out + row * block->stride + panel * PANEL;
    if (left >= PANEL) {
        floats_store(out, sum);
        return;
    }
    float last[PANEL];
    floats_store(last, sum);
    memcpy(out, last, left * sizeof(float));
}

/* F32 and BF16: a line of weights is one input, or two, of a panel. */
ALWAYS void block_of_floats(const Block *block, const int pairs, const int rows, const int panels)
{
    Floats sums[FLOAT_ROWS][FLOAT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = floats_all(0);
    const int words = (int)(block->row_bytes / WORD);
    for (int k = 0; k < words; k++) {
        Words weights[FLOAT_PANELS];
        EACH(p, panels) {
            const char *line = block->weights + p * block->panel_bytes + (size_t)k * LINE_BYTES;
            __builtin_prefetch(line + AHEAD);
            weights[p] = words_load(line);
        }
        EACH(r, rows) {
            const Words inputs = words_all(block->inputs + r * block->row_bytes + (size_t)k * WORD);
            EACH(p, panels) sums[r][p] = pairs ? pairs_plus(sums[r][p], weights[p], inputs)
                                               : floats_plus(sums[r][p], weights[p], inputs);
        }
    }
    EACH(r, rows) EACH(p, panels) store(block, r, p, sums[r][p]);
}

/* Weight scales × input scales × integers, summed over the groups. INT8 has its weight scales at the end. */
ALWAYS Floats scaled(const Block *block, int nibbles, Floats sum, Ints ints, int group, int row, int panel)
{
    const Floats input_scale = floats_all(block->input_scales[row * block->groups + group]);
    if (!nibbles)
        return floats_plus_product(sum, floats_of_ints(ints), input_scale);
    const uint16_t *scales = (const uint16_t *)block->weight_scales + (panel * block->groups + group) * PANEL;
    return floats_plus_product(sum, floats_of_ints(ints), floats_times(floats_of_bfloats(scales), input_scale));
}

/* The products of a group: its quads of inputs, of which a line of INT4 holds two, GROUP / 2 apart. */
ALWAYS void add_group(const Block *block, int nibbles, int group, Ints sums[INT_ROWS][INT_PANELS], const int rows,
                      const int panels)
{
    enum { QUADS = GROUP / 4 };
    const char *weights = block->weights + (size_t)group * (TILE >> nibbles);
    const char *inputs = block->inputs + (size_t)group * GROUP;
    EACH(q, QUADS >> nibbles) {
        Words lines[INT_PANELS];
        EACH(p, panels) {
            const char *line = weights + p * block->panel_bytes + q * LINE_BYTES;
            __builtin_prefetch(line + AHEAD);
            lines[p] = words_load(line);
        }
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

/* INT8 and INT4: exact integers within a group, floats from group to group. */
ALWAYS void block_of_integers(const Block *block, const int nibbles, const int rows, const int panels)
{
    Floats sums[INT_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = floats_all(0);
    for (int g = 0; g < block->groups; g++) {
        Ints ints[INT_ROWS][INT_PANELS];
        EACH(r, rows) EACH(p, panels) ints[r][p] = ints_all(block->input_sums[r * block->groups + g]);
        add_group(block, nibbles, g, ints, rows, panels);
        EACH(r, rows) EACH(p, panels) sums[r][p] = scaled(block, nibbles, sums[r][p], ints[r][p], g, r, p);
    }
    const float *scales = (const float *)block->weight_scales;
    EACH(r, rows) EACH(p, panels)
        store(block, r, p, nibbles ? sums[r][p] : floats_times(sums[r][p], floats_load(scales + p * PANEL)));
}

ALWAYS void block_of(const Block *block, const int kind, const int rows, const int panels)
{
    if (kind == F32 || kind == BF16)
        block_of_floats(block, kind == BF16, rows, panels);
    else
        block_of_integers(block, kind == INT4, rows, panels);
}

/* The rows of a block are a constant for the compiler, in each of these cases. */
#define CASE(count) case count: if (count <= most_rows) block_of(block, kind, count, panels); break;
ALWAYS void block_of_rows(const Block *block, const int kind, int rows, const int most_rows, const int panels)
{
    switch (rows) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
    }
}
#undef CASE

static Block block_at(const Matrix *weight, const Inputs *x, int row, int panel)
{
    const int groups = weight->padded / GROUP;
    const size_t row_bytes = (size_t)x->padded * (x->kind == F32 ? 4 : x->kind == BF16 ? 2 : 1);
    const size_t panel_bytes = matrix_bytes(weight->kind, PANEL, weight->inputs);
    return (Block){
        .weights = (const char *)weight->values + panel * panel_bytes,
        .inputs = (const char *)x->values + row * row_bytes,
        .panel_bytes = panel_bytes,
        .row_bytes = row_bytes,
        .input_scales = x->scales + (size_t)row * groups,
        .input_sums = x->sums + (size_t)row * groups,
        .weight_scales = (const char *)weight->scales + panel * matrix_scale_bytes(weight->kind, PANEL, weight->inputs),
        .groups = groups,
        .outputs = weight->outputs - panel * PANEL,
    };
}

typedef struct Span {
    int first, end, panel, panels;
    float *out;
    ptrdiff_t stride;
} Span;

/* All rows by panels side by side, then by the next: the weights are read from memory once. */
ALWAYS void multiply_kind(const Matrix *weight, const Inputs *x, const Span *span, const int kind, const int most_rows,
                          const int most_panels)
{
    int panel = span->panel;
    while (panel < span->panels) {
        const int whole = span->panels - panel >= most_panels;
        for (int row = span->first; row < span->end; row += most_rows) {
            const int rows = span->end - row < most_rows ? span->end - row : most_rows;
            Block block = block_at(weight, x, row, panel);
            block.out = span->out + (row - span->first) * span->stride + (panel - span->panel) * PANEL;
            block.stride = span->stride;
            if (whole)
                block_of_rows(&block, kind, rows, most_rows, most_panels);
            else
                block_of_rows(&block, kind, rows, most_rows, 1);
        }
        panel += whole ? most_panels : 1;
    }
}

void multiply(const Matrix *weight, const Inputs *x, int first, int end, int panel, int panels, float *out,
              ptrdiff_t stride)
{
    const Span span = {first, end, panel, panels, out, stride};
    switch (weight->kind) {
    case F32: multiply_kind(weight, x, &span, F32, FLOAT_ROWS, FLOAT_PANELS); break;
    case BF16: multiply_kind(weight, x, &span, BF16, FLOAT_ROWS, FLOAT_PANELS); break;
    case INT8: multiply_kind(weight, x, &span, INT8, INT_ROWS, INT_PANELS); break;
    case INT4: multiply_kind(weight, x, &span, INT4, INT_ROWS, INT_PANELS); break;
    }
}
