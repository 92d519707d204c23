/* `multiply` in blocks of some rows × some panels, whose sums stay in registers while the loop runs over the inputs.
 *
 * Included by each multiply_*.c after the vectors of its level (vectors_*.h) and these constants, which are chosen to
 * fill the registers: FLOAT_ROWS × FLOAT_PANELS for F32 and BF16, INT_ROWS × INT_PANELS for INT8 and INT4, with at most
 * MOST_ROWS rows; PREFETCH_BYTES, how far ahead of their use weights are prefetched. Each lane computes one output, so
 * the order of its additions is the same for every block size.
 */
#include "multiply.h"
#include "quantize.h"
#include "rounding.h"

#define ALWAYS static inline __attribute__((always_inline))
#define EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < count; i++)

enum { MOST_ROWS = 8, WORD = 4, LINE_BYTES = PANEL * WORD };

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
    int span;               /* groups in this block */
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

/* Whether the rows must be a single pass, because each of several passes has more (see multiply_rows). A single pass
 * prefetches its own weights. */
#define ALONE(rows, most) ((rows) < ((most) + 1) / 2)

/* Prefetch a line of each panel: the one PREFETCH_BYTES behind `weight_line` if the pass is alone, else the next of
 * `prefetch`. */
ALWAYS void fetch(const Block *block, const int alone, const char *weight_line, const char **prefetch,
                  const int panels)
{
    EACH(p, panels) __builtin_prefetch((alone ? weight_line + PREFETCH_BYTES : *prefetch) + p * block->panel_bytes);
    *prefetch += block->prefetch_bytes;
}

/* F32 and BF16: a line has the weights of one input (F32) or two (BF16) for a panel. */
ALWAYS void block_of_floats(const Block *block, const int pairs, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][FLOAT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const int words = block->span * (pairs ? GROUP / 2 : GROUP), bytes = pairs ? PAIR_BYTES : WORD;
    const char *prefetch = block->prefetch;
    for (int k = 0; k < words; k++) {
        Words weights[FLOAT_PANELS];
        const char *weight_line = block->weights + (size_t)k * LINE_BYTES;
        EACH(p, panels) weights[p] = words_load(weight_line + p * block->panel_bytes);
        fetch(block, ALONE(rows, FLOAT_ROWS), weight_line, &prefetch, panels);
        EACH(r, rows) {
            const char *inputs = block->inputs + r * block->row_bytes + (size_t)k * bytes;
            EACH(p, panels) sums[r][p] = pairs ? pairs_plus(sums[r][p], weights[p], inputs)
                                               : floats_plus(sums[r][p], weights[p], words_all(inputs));
        }
    }
    EACH(r, rows) EACH(p, panels) store(block, r, p, sums[r][p]);
}

/* What is added to the integers of a weight to store them unsigned. */
static inline int zero_of(int nibbles)
{
    return nibbles ? INT4_ZERO : INT8_ZERO;
}

/* Add the products of a group. A line has the weights of a quad of inputs; in INT4, of two quads, GROUP / 2 apart. */
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

/* sum + integers × scales. INT8's weight scales are the same for all groups: block_of_integers applies them last. */
ALWAYS Floats add_scaled(const Block *block, const int nibbles, Floats sum, Ints ints, int group, int row, int panel)
{
    const Floats scale = floats_all(block->input_scales[row * block->groups + group]);
    const uint16_t *scales = (const uint16_t *)(block->weight_scales + panel * block->scale_bytes) + group * PANEL;
    return floats_plus_product(sum, floats_of_ints(ints), nibbles ? floats_times(floats_of_bfloats(scales), scale) : scale);
}

/* INT8 and INT4: sums are exact integers within a group, and floats across groups. */
ALWAYS void block_of_integers(const Block *block, const int nibbles, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const char *prefetch = block->prefetch;
    for (int g = 0; g < block->span; g++) {
        Ints ints[MOST_ROWS][INT_PANELS];
        EACH(r, rows) EACH(p, panels) ints[r][p] = ints_all(-zero_of(nibbles) * block->input_sums[r * block->groups + g]);
        add_group(block, nibbles, g, ints, rows, panels, &prefetch);
        EACH(r, rows) EACH(p, panels) sums[r][p] = add_scaled(block, nibbles, sums[r][p], ints[r][p], g, r, p);
    }
    EACH(p, panels) {
        const float *scales = (const float *)(block->weight_scales + p * block->scale_bytes);
        const int scaled = nibbles || !block->ends;
        EACH(r, rows) store(block, r, p, scaled ? sums[r][p] : floats_times(sums[r][p], floats_load(scales)));
    }
}

/* A function for each number of rows: as a compile-time constant, it lets the sums stay in registers. */
#define BLOCK(kind, of, dtype, most, rows) \
    static void kind##_##rows(const Block *block) { if (rows <= most##_ROWS) of(block, dtype, rows, 1); } \
    static void kind##_##rows##_wide(const Block *block) \
    { if (rows <= most##_ROWS) of(block, dtype, rows, most##_PANELS); }
#define BLOCKS(kind, of, dtype, most) \
    BLOCK(kind, of, dtype, most, 1) BLOCK(kind, of, dtype, most, 2) BLOCK(kind, of, dtype, most, 3) \
    BLOCK(kind, of, dtype, most, 4) BLOCK(kind, of, dtype, most, 5) BLOCK(kind, of, dtype, most, 6) \
    BLOCK(kind, of, dtype, most, 7) BLOCK(kind, of, dtype, most, 8)
BLOCKS(f32, block_of_floats, 0, FLOAT)
BLOCKS(bf16, block_of_floats, 1, FLOAT)
BLOCKS(int8, block_of_integers, 0, INT)
BLOCKS(int4, block_of_integers, 1, INT)

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
    [INT8] = {INT_ROWS, INT_PANELS, ROWS_OF(int8, ), ROWS_OF(int8, _wide)},
    [INT4] = {INT_ROWS, INT_PANELS, ROWS_OF(int4, ), ROWS_OF(int4, _wide)},
};

static const int GROUP_LINES[] = {[F32] = GROUP, [BF16] = GROUP / 2, [INT8] = GROUP / 4, [INT4] = GROUP / 8};

/* The block of all rows and inputs, for the panels from `panel` on. */
static Block block_at(const GemmTask *task, int panel)
{
    const Matrix *weight = task->weight;
    const Inputs *x = task->rows;
    const int groups = weight->padded / GROUP;
    const size_t panel_bytes = (size_t)groups * GROUP_LINES[weight->dtype] * LINE_BYTES;
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
    block->input_sums += (size_t)rows * block->groups;
    block->out += rows * block->stride;
}

/* Restrict the block to groups [group, group + span). */
ALWAYS void cut_groups(Block *block, int kind, int group, int span)
{
    block->weights += (size_t)group * GROUP_LINES[kind] * LINE_BYTES;
    block->inputs += (size_t)group * GROUP * INPUT_BYTES[INPUT_DTYPE[kind]];
    block->input_scales += group;
    block->input_sums += group;
    block->weight_scales += kind == INT4 ? (size_t)group * PANEL * sizeof(uint16_t) : 0;
    block->accumulates |= group > 0;
    block->ends = group + span == block->groups;
    block->span = span;
}

/* Each of several passes over the weights prefetches a share of the weights that come next, so that memory is read all
 * the time. A single pass prefetches its own weights. */
static void multiply_rows(Block block, const GemmTask *task, const Blocks *of, int wide, const char *next)
{
    const int all = task->end - task->first, passes = ceil_div(all, of->rows);
    Multiply *const *multiply = wide ? of->wide : of->one;
    block.prefetch = passes > 1 ? next : block.weights + PREFETCH_BYTES;
    block.prefetch_bytes = ceil_div(LINE_BYTES, passes);
    skip_rows(&block, task->first);
    for (int pass = 0; pass < passes; pass++) {
        const int rows = (all + pass) / passes;
        multiply[rows - 1](&block);
        block.prefetch += block.prefetch_bytes * block.span * GROUP_LINES[task->weight->dtype];
        skip_rows(&block, rows);
    }
}

/* Takes some panels at once, one span of inputs for all rows at a time: weights are read from memory once. */
static void multiply_blocks(const GemmTask *task)
{
    const Matrix *weight = task->weight;
    const Blocks *of = &OF_KIND[weight->dtype];
    const int groups = weight->padded / GROUP, several = task->end - task->first > of->rows;
    const int spans = several ? ceil_div(groups * GROUP_LINES[weight->dtype], SPAN_LINES) : 1;
    const int span = ceil_div(groups, spans);
    for (int panel = task->panel, some; panel < task->panels; panel += some) {
        const int wide = task->panels - panel >= of->panels;
        some = wide ? of->panels : 1;
        const Block full_block = block_at(task, panel);
        const char *beyond = full_block.weights + some * full_block.panel_bytes;
        const char *after = panel + some < task->panels ? beyond : task->next;
        for (int group = 0; group < groups; group += span) {
            Block block = full_block;
            cut_groups(&block, weight->dtype, group, groups - group < span ? groups - group : span);
            const char *rest = block.weights + (size_t)block.span * GROUP_LINES[weight->dtype] * LINE_BYTES;
            multiply_rows(block, task, of, wide, block.ends && after ? after : rest);
        }
    }
}
