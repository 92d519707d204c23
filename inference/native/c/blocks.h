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

/* Where a block begins: weights of its first panel, inputs of its first row, and how far the next are. */
typedef struct Block {
    const char *weights, *inputs;
    size_t panel_bytes, row_bytes;
    const float *input_scales;
    const int32_t *input_sums;
    const char *weight_scales;
    size_t scale_bytes;     /* of a panel */
    int groups;
    int outputs;            /* that are left from its first panel on */
    float *out;
    ptrdiff_t stride;
} Block;

ALWAYS void store(const Block *block, int row, int panel, Floats sum)
{
    const int left = block->outputs - panel * PANEL;
    floats_store_some(block->out + row * block->stride + panel * PANEL, sum, left < PANEL ? left : PANEL);
}

/* F32 and BF16: a line of weights is one input, or two, of a panel. */
ALWAYS void block_of_floats(const Block *block, const int pairs, const int rows, const int panels)
{
    Floats sums[MOST_ROWS][FLOAT_PANELS];
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

/* The products of a group: its quads of inputs, of which a line of INT4 holds two, GROUP / 2 apart. */
ALWAYS void add_group(const Block *block, const int nibbles, int group, Ints sums[MOST_ROWS][INT_PANELS],
                      const int rows, const int panels)
{
    const char *weights = block->weights + (size_t)group * (TILE >> nibbles);
    const char *inputs = block->inputs + (size_t)group * GROUP;
    EACH(q, GROUP / 4 >> nibbles) {
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
    EACH(r, rows) EACH(p, panels) sums[r][p] = floats_all(0);
    for (int g = 0; g < block->groups; g++) {
        Ints ints[MOST_ROWS][INT_PANELS];
        EACH(r, rows) EACH(p, panels) ints[r][p] = ints_all(block->input_sums[r * block->groups + g]);
        add_group(block, nibbles, g, ints, rows, panels);
        EACH(r, rows) EACH(p, panels) sums[r][p] = add_scaled(block, nibbles, sums[r][p], ints[r][p], g, r, p);
    }
    EACH(p, panels) {
        const float *scales = (const float *)(block->weight_scales + p * block->scale_bytes);
        EACH(r, rows) store(block, r, p, nibbles ? sums[r][p] : floats_times(sums[r][p], floats_load(scales)));
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

static Block block_at(const Matrix *weight, const Inputs *x, int row, int panel)
{
    const int groups = weight->padded / GROUP;
    const size_t row_bytes = (size_t)x->padded * (x->kind == F32 ? 4 : x->kind == BF16 ? 2 : 1);
    const size_t panel_bytes = matrix_bytes(weight->kind, PANEL, weight->inputs);
    const size_t scale_bytes = matrix_scale_bytes(weight->kind, PANEL, weight->inputs);
    return (Block){
        .weights = (const char *)weight->values + panel * panel_bytes,
        .inputs = (const char *)x->values + row * row_bytes,
        .panel_bytes = panel_bytes,
        .row_bytes = row_bytes,
        .input_scales = x->scales + (size_t)row * groups,
        .input_sums = x->sums + (size_t)row * groups,
        .weight_scales = (const char *)weight->scales + panel * scale_bytes,
        .scale_bytes = scale_bytes,
        .groups = groups,
        .outputs = weight->outputs - panel * PANEL,
    };
}

/* All rows by some panels side by side, then by the next: the weights are read from memory once. */
static void multiply_blocks(const Matrix *weight, const Inputs *x, int first, int end, int panel, int panels,
                            float *out, ptrdiff_t stride)
{
    const Blocks *of = &OF_KIND[weight->kind];
    for (int p = panel; p < panels;) {
        const int wide = panels - p >= of->panels;
        for (int row = first; row < end; row += of->rows) {
            const int rows = end - row < of->rows ? end - row : of->rows;
            Block block = block_at(weight, x, row, p);
            block.out = out + (row - first) * stride + (p - panel) * PANEL;
            block.stride = stride;
            (wide ? of->wide : of->one)[rows - 1](&block);
        }
        p += wide ? of->panels : 1;
    }
}
