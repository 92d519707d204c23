/* What `multiply` does, in blocks of some rows × some panels, whose sums stay in registers while all inputs go by.
 *
 * Included by each multiply_*.c, behind the vectors of its level and these numbers, which fill its registers:
 * FLOAT_ROWS × FLOAT_PANELS for floats and bfloat16, INT_ROWS × INT_PANELS for integers, rows up to MOST_ROWS;
 * AHEAD, the bytes that weights are fetched ahead of their use. A lane is one output, so the order of its
 * additions depends on nothing but the inputs.
 */
#include "multiply.h"
#include "quantise.h"

#define ALWAYS static inline __attribute__((always_inline))
#define EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < count; i++)

enum { MOST_ROWS = 8, WORD = 4, LINE_BYTES = PANEL * WORD };

/* Lines of a panel that are multiplied with all rows before the next ones: those of a few panels and their
 * successors find place in a core's own cache. */
enum { SPAN_LINES = 512 };

/* Where a block begins: weights of its first panel, inputs of its first row, and how far the next are. */
typedef struct Block {
    const char *weights, *inputs;
    size_t panel_bytes, row_bytes;
    const char *ahead;      /* weights that are fetched meanwhile: of each panel */
    size_t ahead_bytes;     /* so many for each line */
    const float *input_scales;
    const int32_t *input_sums;
    const char *weight_scales;
    size_t scale_bytes;     /* of a panel */
    int groups;             /* of a row */
    int span;               /* groups of this block */
    int begun, ends;        /* out holds the sums of the groups before; there are none behind */
    int outputs;            /* that are left from its first panel on */
    float *out;
    ptrdiff_t stride;
} Block;

ALWAYS void store(const Block *block, int row, int panel, Floats sum)
{
    const int left = block->outputs - panel * PANEL;
    floats_store_some(block->out + row * block->stride + panel * PANEL, sum, left < PANEL ? left : PANEL);
}

ALWAYS Floats begin(const Block *block, int row, int panel)
{
    return block->begun ? floats_load(block->out + row * block->stride + panel * PANEL) : floats_all(0);
}

/* Fewer rows than any of several passes has (see multiply_rows): these fetch what they will come to themselves. */
#define ALONE(rows, most) ((rows) < ((most) + 1) / 2)

/* Begin to fetch a line of each panel: that which is AHEAD of `line`, or the next of `ahead`. */
ALWAYS void fetch(const Block *block, const int alone, const char *line, const char **ahead, const int panels)
{
    EACH(p, panels) __builtin_prefetch((alone ? line + AHEAD : *ahead) + p * block->panel_bytes);
    *ahead += block->ahead_bytes;
}

/* F32 and BF16: a line of weights is one input, or two, of a panel. */
ALWAYS void block_of_floats(const Block *block, const int pairs, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][FLOAT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const int words = block->span * (pairs ? GROUP / 2 : GROUP);
    const char *ahead = block->ahead;
    for (int k = 0; k < words; k++) {
        Words weights[FLOAT_PANELS];
        const char *line = block->weights + (size_t)k * LINE_BYTES;
        EACH(p, panels) weights[p] = words_load(line + p * block->panel_bytes);
        fetch(block, ALONE(rows, FLOAT_ROWS), line, &ahead, panels);
        EACH(r, rows) {
            const Words inputs = words_all(block->inputs + r * block->row_bytes + (size_t)k * WORD);
            EACH(p, panels) sums[r][p] = pairs ? pairs_plus(sums[r][p], weights[p], inputs)
                                               : floats_plus(sums[r][p], weights[p], inputs);
        }
    }
    EACH(r, rows) EACH(p, panels) store(block, r, p, sums[r][p]);
}

/* The products of a group: its quads of inputs, of which a line of INT4 holds two, GROUP / 2 apart. */
ALWAYS void add_group(const Block *block, const int nibbles, int group, Ints sums[MOST_ROWS][INT_PANELS],
                      const int rows, const int panels, const char **ahead)
{
    const char *weights = block->weights + (size_t)group * (TILE >> nibbles);
    const char *inputs = block->inputs + (size_t)group * GROUP;
    EACH(q, GROUP / 4 >> nibbles) {
        Words lines[INT_PANELS];
        EACH(p, panels) lines[p] = words_load(weights + q * LINE_BYTES + p * block->panel_bytes);
        fetch(block, ALONE(rows, INT_ROWS), weights + q * LINE_BYTES, ahead, panels);
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

/* sum + integers × their scales; those of INT8's weights are the same for all groups and come at the end. */
ALWAYS Floats add_scaled(const Block *block, const int nibbles, Floats sum, Ints ints, int group, int row, int panel)
{
    const Floats scale = floats_all(block->input_scales[row * block->groups + group]);
    const uint16_t *scales = (const uint16_t *)(block->weight_scales + panel * block->scale_bytes) + group * PANEL;
    return floats_plus_product(sum, floats_of_ints(ints), nibbles ? floats_times(floats_of_bfloats(scales), scale) : scale);
}

/* INT8 and INT4: exact integers within a group, floats from group to group. */
ALWAYS void block_of_integers(const Block *block, const int nibbles, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][INT_PANELS];
    EACH(r, rows) EACH(p, panels) sums[r][p] = begin(block, r, p);
    const char *ahead = block->ahead;
    for (int g = 0; g < block->span; g++) {
        Ints ints[MOST_ROWS][INT_PANELS];
        EACH(r, rows) EACH(p, panels) ints[r][p] = ints_all(block->input_sums[r * block->groups + g]);
        add_group(block, nibbles, g, ints, rows, panels, &ahead);
        EACH(r, rows) EACH(p, panels) sums[r][p] = add_scaled(block, nibbles, sums[r][p], ints[r][p], g, r, p);
    }
    EACH(p, panels) {
        const float *scales = (const float *)(block->weight_scales + p * block->scale_bytes);
        const int scaled = nibbles || !block->ends;
        EACH(r, rows) store(block, r, p, scaled ? sums[r][p] : floats_times(sums[r][p], floats_load(scales)));
    }
}

/* A function for each number of rows: the compiler has to know it, to keep the sums in registers. */
#define BLOCK(kind, of, form, most, rows) \
    static void kind##_##rows(const Block *block) { if (rows <= most##_ROWS) of(block, form, rows, 1); } \
    static void kind##_##rows##_wide(const Block *block) { if (rows <= most##_ROWS) of(block, form, rows, most##_PANELS); }
#define BLOCKS(kind, of, form, most) \
    BLOCK(kind, of, form, most, 1) BLOCK(kind, of, form, most, 2) BLOCK(kind, of, form, most, 3) \
    BLOCK(kind, of, form, most, 4) BLOCK(kind, of, form, most, 5) BLOCK(kind, of, form, most, 6) \
    BLOCK(kind, of, form, most, 7) BLOCK(kind, of, form, most, 8)
BLOCKS(f32, block_of_floats, 0, FLOAT)
BLOCKS(bf16, block_of_floats, 1, FLOAT)
BLOCKS(int8, block_of_integers, 0, INT)
BLOCKS(int4, block_of_integers, 1, INT)

typedef void Multiply(const Block *);
typedef struct Blocks {
    int rows, panels;                       /* of the largest block */
    Multiply *one[MOST_ROWS], *wide[MOST_ROWS];     /* of one panel, and of as many as that */
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
static const int BYTES[] = {[F32] = 4, [BF16] = 2, [INT8] = 1, [INT4] = 1};     /* of an input */

/* All rows by panels from `panel` on, before what is multiplied is cut. */
static Block block_at(const Part *part, int panel)
{
    const Matrix *weight = part->weight;
    const Inputs *x = part->rows;
    const int groups = weight->padded / GROUP;
    const size_t panel_bytes = (size_t)groups * GROUP_LINES[weight->kind] * LINE_BYTES;
    const size_t scale_bytes = matrix_scale_bytes(weight->kind, PANEL, weight->inputs);
    return (Block){
        .weights = (const char *)weight->values + panel * panel_bytes,
        .inputs = x->values,
        .panel_bytes = panel_bytes,
        .row_bytes = (size_t)x->padded * BYTES[weight->kind],
        .input_scales = x->scales,
        .input_sums = x->sums,
        .weight_scales = (const char *)weight->scales + panel * scale_bytes,
        .scale_bytes = scale_bytes,
        .groups = groups,
        .span = groups,
        .begun = part->adds,
        .ends = 1,
        .outputs = weight->outputs - panel * PANEL,
        .out = part->out + (panel - part->panel) * PANEL - part->first * part->stride,
        .stride = part->stride,
    };
}

ALWAYS void skip_rows(Block *block, int rows)
{
    block->inputs += rows * block->row_bytes;
    block->input_scales += (size_t)rows * block->groups;
    block->input_sums += (size_t)rows * block->groups;
    block->out += rows * block->stride;
}

/* Leave out the groups before `group`, and those from group + span on. */
ALWAYS void cut_groups(Block *block, int kind, int group, int span)
{
    block->weights += (size_t)group * GROUP_LINES[kind] * LINE_BYTES;
    block->inputs += (size_t)group * GROUP * BYTES[kind];
    block->input_scales += group;
    block->input_sums += group;
    block->weight_scales += kind == INT4 ? (size_t)group * PANEL * sizeof(uint16_t) : 0;
    block->begun |= group > 0;
    block->ends = group + span == block->groups;
    block->span = span;
}

static int parts_of(int count, int size)
{
    return (count + size - 1) / size;
}

/* Each pass over the weights fetches its share of what comes next, so that memory is read all the time; a single
 * one fetches what it will come to itself. */
static void multiply_rows(Block block, const Part *part, const Blocks *of, int wide, const char *next)
{
    const int all = part->end - part->first, passes = parts_of(all, of->rows);
    Multiply *const *multiply = wide ? of->wide : of->one;
    block.ahead = passes > 1 ? next : block.weights + AHEAD;
    block.ahead_bytes = parts_of(LINE_BYTES, passes);
    skip_rows(&block, part->first);
    for (int pass = 0; pass < passes; pass++) {
        const int rows = (all + pass) / passes;
        multiply[rows - 1](&block);
        block.ahead += block.ahead_bytes * block.span * GROUP_LINES[part->weight->kind];
        skip_rows(&block, rows);
    }
}

/* Some panels side by side, a span of their inputs at a time, then the next: weights are read from memory once. */
static void multiply_blocks(const Part *part)
{
    const Matrix *weight = part->weight;
    const Blocks *of = &OF_KIND[weight->kind];
    const int groups = weight->padded / GROUP, several = part->end - part->first > of->rows;
    const int spans = several ? parts_of(groups * GROUP_LINES[weight->kind], SPAN_LINES) : 1;
    const int span = parts_of(groups, spans);
    for (int panel = part->panel, some; panel < part->panels; panel += some) {
        const int wide = part->panels - panel >= of->panels;
        some = wide ? of->panels : 1;
        const Block whole = block_at(part, panel);
        const char *after = panel + some < part->panels ? whole.weights + some * whole.panel_bytes : part->next;
        for (int group = 0; group < groups; group += span) {
            Block block = whole;
            cut_groups(&block, weight->kind, group, groups - group < span ? groups - group : span);
            const char *rest = block.weights + (size_t)block.span * GROUP_LINES[weight->kind] * LINE_BYTES;
            multiply_rows(block, part, of, wide, block.ends && after ? after : rest);
        }
    }
}
