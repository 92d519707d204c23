/* `multiply` in blocks of some rows × some panels, whose sums stay in registers while the loop runs over the inputs.
 *
 * Included by each multiply_*.c after the vectors of its level (vectors_*.h) and these constants, which are chosen to
 * fill the registers: FLOAT_ROWS × FLOAT_PANELS for floats, INT_ROWS × INT_PANELS for integers, with at most
 * MOST_ROWS rows; PREFETCH_BYTES, how far ahead of their use weights are prefetched, and PREFETCH_LOCALITY, into which
 * cache: 3 for the first one, 2 for the second. Each lane computes one output, so the order of its additions is the same
 * for every block size.
 */
#include "gemm/blocks_of_integers.h"
#include "rounding.h"

/* sum + the products of a line's weights, or of F16's half a line, with one input or two (BF16). */
ALWAYS Floats weights_plus(const int kind, Floats sum, const char *weights, const char *inputs)
{
    float input;
    switch (kind) {
    case BF16: return pairs_plus(sum, words_load(weights), inputs);
    case F32: return floats_plus(sum, words_load(weights), words_all(inputs));
    }
    __builtin_memcpy(&input, inputs, sizeof input);
    return floats_plus_product(sum, floats_of_halves((const uint16_t *)weights), floats_all(input));
}

/* F32, BF16 and F16: a line has the weights of one input (F32) or two for a panel. */
ALWAYS void block_of_floats(const Block *block, const int kind, const int rows, const int panels)
{
#ifdef ROW_PAIRS
    if (kind == BF16 && rows > 1) {
        block_of_row_pairs(block, rows);
        return;
    }
#endif
    Floats sums[MOST_ROWS][FLOAT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const int lines = block->span * BITS[kind], halves = kind == F16 ? 2 : 1, bytes = kind == BF16 ? PAIR_BYTES : WORD;
    const char *prefetch = block->prefetch;
    for (int k = 0; k < lines; k++) {
        const char *line = block->weights + (size_t)k * LINE_BYTES;
        const char *inputs = block->inputs + (size_t)k * halves * bytes;
        fetch(block, &prefetch, panels);
        EACH(half, halves) EACH(r, rows) EACH(p, panels) {
            const char *weights = line + p * block->panel_bytes + half * (LINE_BYTES / 2);
            sums[r][p] = weights_plus(kind, sums[r][p], weights, inputs + r * block->row_bytes + half * bytes);
        }
    }
    EACH(r, rows) EACH(p, panels) store(block, r, p, sums[r][p]);
}

/* A function for each number of rows: as a compile-time constant, it lets the sums stay in registers. Functions for
 * one panel are empty where the wide ones have one panel, too, and are called. */
#define BLOCK(kind, function, dtype, most, rows) \
    static void kind##_##rows(const Block *block) \
    { if (rows <= most##_ROWS && most##_PANELS > 1) function(block, dtype, rows, 1); } \
    static void kind##_##rows##_wide(const Block *block) \
    { if (rows <= most##_ROWS) function(block, dtype, rows, most##_PANELS); }
#define BLOCKS(kind, function, dtype, most) \
    BLOCK(kind, function, dtype, most, 1) BLOCK(kind, function, dtype, most, 2) BLOCK(kind, function, dtype, most, 3) \
    BLOCK(kind, function, dtype, most, 4) BLOCK(kind, function, dtype, most, 5) BLOCK(kind, function, dtype, most, 6) \
    BLOCK(kind, function, dtype, most, 7) BLOCK(kind, function, dtype, most, 8)
BLOCKS(f32, block_of_floats, F32, FLOAT)
BLOCKS(bf16, block_of_floats, BF16, FLOAT)
BLOCKS(f16, block_of_floats, F16, FLOAT)
BLOCKS(int8, block_of_integers, INT8, INT)
BLOCKS(int4, block_of_integers, INT4, INT)
BLOCKS(q8_0, block_of_integers, Q8_0, INT)
BLOCKS(q4_0, block_of_integers, Q4_0, INT)
BLOCKS(q4_1, block_of_integers, Q4_1, INT)
BLOCKS(q5_0, block_of_integers, Q5_0, INT)
BLOCKS(q5_1, block_of_integers, Q5_1, INT)
BLOCKS(q2_k, block_of_integers, Q2_K, INT)
BLOCKS(q3_k, block_of_integers, Q3_K, INT)
BLOCKS(q4_k, block_of_integers, Q4_K, INT)
BLOCKS(q5_k, block_of_integers, Q5_K, INT)
BLOCKS(q6_k, block_of_integers, Q6_K, INT)
BLOCKS(iq4_nl, block_of_integers, IQ4_NL, INT)
BLOCKS(iq4_xs, block_of_integers, IQ4_XS, INT)
BLOCKS(mxfp4, block_of_integers, MXFP4, INT)

typedef void Multiply(const Block *);
typedef struct Blocks {
    int rows, panels;                       /* size of the largest block */
    Multiply *one[MOST_ROWS], *wide[MOST_ROWS];     /* by rows - 1: for one panel, for `panels` panels */
} Blocks;

#define ROWS_OF(kind, wide) \
    {kind##_1##wide, kind##_2##wide, kind##_3##wide, kind##_4##wide, kind##_5##wide, kind##_6##wide, \
     kind##_7##wide, kind##_8##wide}
static const Blocks OF_KIND[] = {
    [F32] = {FLOAT_ROWS, FLOAT_PANELS, ROWS_OF(f32, ), ROWS_OF(f32, _wide)},
    [BF16] = {FLOAT_ROWS, FLOAT_PANELS, ROWS_OF(bf16, ), ROWS_OF(bf16, _wide)},
    [F16] = {FLOAT_ROWS, FLOAT_PANELS, ROWS_OF(f16, ), ROWS_OF(f16, _wide)},
    [INT8] = {INT_ROWS, INT_PANELS, ROWS_OF(int8, ), ROWS_OF(int8, _wide)},
    [INT4] = {INT_ROWS, INT_PANELS, ROWS_OF(int4, ), ROWS_OF(int4, _wide)},
    [Q8_0] = {INT_ROWS, INT_PANELS, ROWS_OF(q8_0, ), ROWS_OF(q8_0, _wide)},
    [Q4_0] = {INT_ROWS, INT_PANELS, ROWS_OF(q4_0, ), ROWS_OF(q4_0, _wide)},
    [Q4_1] = {INT_ROWS, INT_PANELS, ROWS_OF(q4_1, ), ROWS_OF(q4_1, _wide)},
    [Q5_0] = {INT_ROWS, INT_PANELS, ROWS_OF(q5_0, ), ROWS_OF(q5_0, _wide)},
    [Q5_1] = {INT_ROWS, INT_PANELS, ROWS_OF(q5_1, ), ROWS_OF(q5_1, _wide)},
    [Q2_K] = {INT_ROWS, INT_PANELS, ROWS_OF(q2_k, ), ROWS_OF(q2_k, _wide)},
    [Q3_K] = {INT_ROWS, INT_PANELS, ROWS_OF(q3_k, ), ROWS_OF(q3_k, _wide)},
    [Q4_K] = {INT_ROWS, INT_PANELS, ROWS_OF(q4_k, ), ROWS_OF(q4_k, _wide)},
    [Q5_K] = {INT_ROWS, INT_PANELS, ROWS_OF(q5_k, ), ROWS_OF(q5_k, _wide)},
    [Q6_K] = {INT_ROWS, INT_PANELS, ROWS_OF(q6_k, ), ROWS_OF(q6_k, _wide)},
    [IQ4_NL] = {INT_ROWS, INT_PANELS, ROWS_OF(iq4_nl, ), ROWS_OF(iq4_nl, _wide)},
    [IQ4_XS] = {INT_ROWS, INT_PANELS, ROWS_OF(iq4_xs, ), ROWS_OF(iq4_xs, _wide)},
    [MXFP4] = {INT_ROWS, INT_PANELS, ROWS_OF(mxfp4, ), ROWS_OF(mxfp4, _wide)},
};

/* The block of all rows and inputs, for the panels from `panel` on. */
static Block block_at(const GemmTask *task, int panel)
{
    const Matrix *weight = task->weight;
    const Inputs *x = task->rows;
    const int groups = weight->padded / GROUP;
    const size_t panel_bytes = (size_t)groups * BITS[weight->dtype] * LINE_BYTES;
    const size_t scale_bytes = matrix_scale_bytes(weight->dtype, PANEL, weight->inputs);
    return (Block){
        .weights = (const char *)weight->values + panel * panel_bytes,
        .inputs = x->values,
        .panel_bytes = panel_bytes,
        .row_bytes = (size_t)x->padded * INPUT_BYTES[x->dtype],
        .input_scales = x->scales,
        .input_sums = x->sums,
        .weight_scales = (const char *)weight->scales + panel * scale_bytes,
        .scale_bytes = scale_bytes,
        .groups = groups,
        .span = groups,
        .accumulates = task->adds,
        .ends = 1,
        .outputs = weight->outputs - panel * PANEL,
        .out = task->out + (panel - task->panel) * PANEL - task->first * task->stride,
        .stride = task->stride,
    };
}

ALWAYS void skip_rows(Block *block, int rows)
{
    block->inputs += rows * block->row_bytes;
    block->input_scales += (size_t)rows * block->groups;
    block->input_sums += 2 * (size_t)rows * block->groups;
    block->out += rows * block->stride;
}

/* Restrict the block to groups [group, group + span). */
ALWAYS void cut_groups(Block *block, int kind, int group, int span)
{
    block->weights += (size_t)group * BITS[kind] * LINE_BYTES;
    block->inputs += (size_t)group * GROUP * INPUT_BYTES[INPUT_DTYPE[kind]];
    block->input_scales += group;
    block->input_sums += 2 * group;
    block->group = group;
    block->accumulates |= group > 0;
    block->ends = group + span == block->groups;
    block->span = span;
}

/* The number of groups, from `group` on, that are multiplied with all rows before the next ones. A single pass prefetches
 * its own weights, PREFETCH_BYTES ahead, and in its last groups those of the next panels: these groups are apart, unless
 * the panels are so short that another call costs more. */
static int span_of(const GemmTask *task, const Blocks *blocks, int groups, int group)
{
    const int bits = BITS[task->weight->dtype], last = ceil_div(PREFETCH_BYTES, bits * LINE_BYTES);
    if (task->end - task->first > blocks->rows) {
        const int span = ceil_div(groups, ceil_div(groups * bits, SPAN_LINES));
        return groups - group < span ? groups - group : span;
    }
    return group || groups <= 2 * last ? groups - group : groups - last;
}

/* Multiply with all rows. Each of several passes over the weights prefetches a share of `next`, so that memory is read
 * all the time. */
static void multiply_rows(Block block, const GemmTask *task, const Blocks *blocks, int wide, const char *next)
{
    const int all = task->end - task->first, passes = ceil_div(all, blocks->rows);
    Multiply *const *multiply = wide ? blocks->wide : blocks->one;
    block.prefetch = next;
    block.prefetch_bytes = ceil_div(LINE_BYTES, passes);
    skip_rows(&block, task->first);
    for (int pass = 0; pass < passes; pass++) {
        const int rows = (all + pass) / passes;
        multiply[rows - 1](&block);
        block.prefetch += block.prefetch_bytes * block.span * BITS[task->weight->dtype];
        skip_rows(&block, rows);
    }
}

/* Takes some panels at once, one span of inputs for all rows at a time: weights are read from memory once. */
static void multiply_blocks(const GemmTask *task)
{
    const Matrix *weight = task->weight;
    const Blocks *blocks = &OF_KIND[weight->dtype];
    const int groups = weight->padded / GROUP, group_bytes = BITS[weight->dtype] * LINE_BYTES;
    const int is_single = task->end - task->first <= blocks->rows;
    for (int panel = task->panel, some; panel < task->panels; panel += some) {
        const int wide = task->panels - panel >= blocks->panels;
        some = wide ? blocks->panels : 1;
        const Block full_block = block_at(task, panel);
        const char *beyond = full_block.weights + some * full_block.panel_bytes;
        const char *after = panel + some < task->panels ? beyond : task->next;
        for (int group = 0, span; group < groups; group += span) {
            Block block = full_block;
            span = span_of(task, blocks, groups, group);
            cut_groups(&block, weight->dtype, group, span);
            const char *rest = block.weights + (is_single ? PREFETCH_BYTES : span * group_bytes);
            multiply_rows(block, task, blocks, wide, block.ends && after ? after : rest);
        }
    }
}
