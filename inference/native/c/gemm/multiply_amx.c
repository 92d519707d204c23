/* `multiply` for AMX: blocks of up to 32 rows × 2 panels in four tiles of sums. Packed weights of 8 and 16 bits are
 * loaded as tiles directly; those of fewer bits are unpacked first.
 *
 * BF16 always uses tiles, because tiles add in another order than vectors. Integer sums are exact either way, so
 * vectors compute them for a few rows; vectors also compute F32 and F16.
 */
#include <string.h>

#include "simd/vectors_avx512.h"

enum { FLOAT_ROWS = 6, FLOAT_PANELS = 4, INT_ROWS = 3, INT_PANELS = 4, PREFETCH_BYTES = 2048, PREFETCH_LOCALITY = 3 };

#include "gemm/blocks.h"
#include "gemm/tiles.h"

enum {
    BLOCK_ROWS = 2 * TILE_ROWS,
    BLOCK_PANELS = 2,
    FEW = 4,                            /* integer rows below which vectors are used */
    BYTE_WEIGHTS = GROUP * PANEL,       /* weights of a group and panel, one byte each */
};

/* Tiles 0 to 3 have the sums, by rows, then panels; 4 and 5 the rows; 6 and 7 the weights. */
enum { ROWS_TILE = 4, WEIGHTS_TILE = 6 };

/* Configure the tiles for this many rows, with `bytes` of inputs at a time. */
static void shape(int rows, int bytes)
{
    Shapes shapes = {.palette = 1};
    const int upper = rows < TILE_ROWS ? rows : TILE_ROWS;
    for (int tile = 0; tile < TILES; tile++) {
        const int second = tile == 2 || tile == 3 || tile == ROWS_TILE + 1;
        shapes.bytes[tile] = tile == ROWS_TILE || tile == ROWS_TILE + 1 ? bytes : TILE_BYTES;
        shapes.rows[tile] = tile >= WEIGHTS_TILE ? bytes / WORD : second ? rows - upper : upper;
        if (!shapes.rows[tile])
            shapes.bytes[tile] = 0;
    }
    tiles_shape(&shapes);
}

ALWAYS void zero_sums(const int tall, const int wide)
{
    tile_zero(0);
    if (wide)
        tile_zero(1);
    if (tall)
        tile_zero(2);
    if (tall && wide)
        tile_zero(3);
}

ALWAYS void load_sums(const char *from, ptrdiff_t stride, const int tall, const int wide)
{
    const char *lower = from + TILE_ROWS * stride;
    tile_load(0, from, stride);
    if (wide)
        tile_load(1, from + TILE_BYTES, stride);
    if (tall)
        tile_load(2, lower, stride);
    if (tall && wide)
        tile_load(3, lower + TILE_BYTES, stride);
}

ALWAYS void store_sums(char *to, ptrdiff_t stride, const int tall, const int wide)
{
    char *lower = to + TILE_ROWS * stride;
    tile_store(0, to, stride);
    if (wide)
        tile_store(1, to + TILE_BYTES, stride);
    if (tall)
        tile_store(2, lower, stride);
    if (tall && wide)
        tile_store(3, lower + TILE_BYTES, stride);
}

ALWAYS void load_rows(const Block *block, size_t place, const int tall)
{
    const char *rows = block->inputs + place;
    tile_load(4, rows, block->row_bytes);
    if (tall)
        tile_load(5, rows + TILE_ROWS * block->row_bytes, block->row_bytes);
}

ALWAYS void fetch_lines(const char *weights, int lines)
{
    for (int line_index = 0; line_index < lines; line_index++)
        __builtin_prefetch(weights + line_index * TILE_BYTES + PREFETCH_BYTES);
}

ALWAYS void load_weights(const char *first, const char *second, int lines, const int wide)
{
    fetch_lines(first, lines);
    tile_load(6, first, TILE_BYTES);
    if (!wide)
        return;
    fetch_lines(second, lines);
    tile_load(7, second, TILE_BYTES);
}

ALWAYS void tiles_add_pairs(const int tall, const int wide)
{
    tile_add_pairs(0, 4, 6);
    if (wide)
        tile_add_pairs(1, 4, 7);
    if (tall)
        tile_add_pairs(2, 5, 6);
    if (tall && wide)
        tile_add_pairs(3, 5, 7);
}

ALWAYS void tiles_add_quads(const int tall, const int wide)
{
    tile_add_quads(0, 4, 6);
    if (wide)
        tile_add_quads(1, 4, 7);
    if (tall)
        tile_add_quads(2, 5, 6);
    if (tall && wide)
        tile_add_quads(3, 5, 7);
}

/* The sums are loaded from `out` and stored there: its rows have room for whole panels. */
ALWAYS void block_of_pairs(const Block *block, const int tall, const int wide)
{
    enum { STEP_BYTES = TILE_ROWS * TILE_BYTES };
    const ptrdiff_t stride = block->stride * sizeof(float);
    const int lines = block->prefetch ? TILE_ROWS : 0;
    if (block->accumulates)
        load_sums((const char *)block->out, stride, tall, wide);
    else
        zero_sums(tall, wide);
    for (int g = 0; g < block->groups; g++) {
        const char *weights = block->weights + (size_t)g * STEP_BYTES;
        load_rows(block, (size_t)g * TILE_BYTES, tall);
        load_weights(weights, weights + block->panel_bytes, lines, wide);
        tiles_add_pairs(tall, wide);
    }
    store_sums((char *)block->out, stride, tall, wide);
}

typedef float Sums[BLOCK_ROWS][BLOCK_PANELS * PANEL];

/* The weights of a group, one per byte: in place if they have 8 bits, else unpacked into `bytes`. */
ALWAYS const char *bytes_of(const char *weights, const int kind, char bytes[BYTE_WEIGHTS])
{
    if (BITS[kind] == 8)
        return weights;
    for (int i = 0; i < BITS[kind]; i++)
        __builtin_prefetch(weights + i * LINE_BYTES + PREFETCH_BYTES);
    EACH(q, QUADS) _mm512_store_si512(bytes + q * LINE_BYTES, codes_of(weights, kind, q));
    return bytes;
}

/* Add exact integer sums of the inputs that share a scale, scaled, in the order of blocks.h. */
ALWAYS void add_integer_sums(const Block *block, const int kind, int group, int half, int rows, int panels,
                             const Sums ints, Sums sums)
{
    GroupScales scales[BLOCK_PANELS];
    for (int p = 0; p < panels; p++)
        scales[p] = scales_of(block, kind, group, half, p);
    for (int r = 0; r < rows; r++) {
        const Ints start = start_of(block, kind, r, group, half);
        for (int p = 0; p < panels; p++) {
            const Ints all = _mm512_add_epi32(words_load(ints[r] + p * PANEL), start);
            const Floats sum = floats_load(sums[r] + p * PANEL);
            floats_store_some(sums[r] + p * PANEL, add_scaled(block, kind, sum, all, scales[p], group, half, r), PANEL);
        }
    }
}

ALWAYS void block_of_quads(const Block *block, const int kind, int rows, Sums sums, const int tall, const int wide)
{
    _Alignas(64) char bytes[BLOCK_PANELS][BYTE_WEIGHTS];
    _Alignas(64) Sums ints;
    const int spans = scales_per_group(kind), span = GROUP / spans;     /* inputs that share a scale */
    memset(sums, 0, sizeof(Sums));
    for (int g = 0; g < block->groups; g++) {
        const char *weights = block->weights + (size_t)g * BITS[kind] * LINE_BYTES;
        const char *first = bytes_of(weights, kind, bytes[0]);
        const char *second = wide ? bytes_of(weights + block->panel_bytes, kind, bytes[1]) : first;
        for (int half = 0; half < spans; half++) {
            const size_t place = (size_t)half * span * PANEL;
            zero_sums(tall, wide);
            load_rows(block, (size_t)g * GROUP + half * span, tall);
            load_weights(first + place, second + place, BITS[kind] == 8 ? span / WORD : 0, wide);
            tiles_add_quads(tall, wide);
            store_sums((char *)ints, sizeof *ints, tall, wide);
            add_integer_sums(block, kind, g, half, rows, wide ? 2 : 1, ints, sums);
        }
    }
}

static void store_block(const Block *block, int kind, int rows, int panels, const Sums sums)
{
    for (int p = 0; p < panels; p++) {
        const float *scales = (const float *)(block->weight_scales + p * block->scale_bytes);
        for (int r = 0; r < rows; r++) {
            const Floats sum = floats_load(sums[r] + p * PANEL);
            store(block, r, p, kind == INT8 ? floats_times(sum, floats_load(scales)) : sum);
        }
    }
}

ALWAYS void block_of_tiles(const Block *block, const int kind, int rows, const int tall, const int wide)
{
    _Alignas(64) Sums sums;
    if (kind == BF16) {
        block_of_pairs(block, tall, wide);
    } else {
        block_of_quads(block, kind, rows, sums, tall, wide);
        store_block(block, kind, rows, 1 + wide, sums);
    }
}

ALWAYS void compute(const Block *block, const int kind, int rows, int panels)
{
    const int tall = rows > TILE_ROWS, wide = panels > 1;
    if (tall && wide)
        block_of_tiles(block, kind, rows, 1, 1);
    else if (tall)
        block_of_tiles(block, kind, rows, 1, 0);
    else if (wide)
        block_of_tiles(block, kind, rows, 0, 1);
    else
        block_of_tiles(block, kind, rows, 0, 0);
}

/* A function of its own for each dtype, which is a constant in it. */
#define CASE(kind) case kind: compute(block, kind, rows, panels); break;

static void multiply_block(const Block *block, int kind, int rows, int panels)
{
    switch (kind) {
    CASE(BF16) CASE(INT8) CASE(INT4) CASE(Q8_0) CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q2_K) CASE(Q3_K)
    CASE(Q4_K) CASE(Q5_K) CASE(Q6_K) CASE(IQ4_NL) CASE(IQ4_XS) CASE(MXFP4)
    }
}

/* Panels after panels for the same rows: to configure the tiles takes as long as some products. The first rows read the
 * weights from memory, later ones from a cache. */
void multiply(const GemmTask *task)
{
    const int kind = task->weight->dtype;
    if (kind == F32 || kind == F16 || (kind != BF16 && task->end - task->first < FEW)) {
        multiply_blocks(task);
        return;
    }
    for (int row = task->first; row < task->end; row += BLOCK_ROWS) {
        const int rows = task->end - row < BLOCK_ROWS ? task->end - row : BLOCK_ROWS;
        shape(rows, kind == BF16 ? TILE_BYTES : GROUP / scales_per_group(kind));
        for (int panel = task->panel; panel < task->panels; panel += BLOCK_PANELS) {
            const int panels = task->panels - panel < BLOCK_PANELS ? 1 : BLOCK_PANELS;
            Block block = block_at(task, panel);
            skip_rows(&block, row);
            block.prefetch = row == task->first ? block.weights : NULL;
            multiply_block(&block, kind, rows, panels);
        }
    }
    tiles_release();
}

int multiply_ready(void)
{
    return tiles_allowed();
}
