/* Packs the blocks of GGUF tensors into panels, one group of a panel at a time, or rows of weights, quantized; and reads
 * the values back. */
#include "packing/gguf.h"

#include <string.h>

#include "packing/gguf_blocks.h"
#include "packing/gguf_quantize.h"
#include "rounding.h"
#include "simd/vectors_plain.h"
#include "thread_team.h"

#include "packing/gguf_scales.h"

enum { HALF = GROUP / 2 };

static char *scales_at(const Matrix *matrix, int panel)
{
    return (char *)matrix->scales + panel * matrix_scale_bytes(matrix->dtype, PANEL, matrix->inputs);
}

static uint8_t *group_at(const Matrix *matrix, int panel, int group)
{
    const size_t number = (size_t)panel * (matrix->padded / GROUP) + group;
    return (uint8_t *)matrix->values + number * BITS[matrix->dtype] * LINE_BYTES;
}

/* Write the codes of a group of output n, into planes of zeros. */
static void write_codes(uint8_t *group, int bits, int n, const uint8_t codes[GROUP])
{
    uint32_t quads[QUADS];
    memcpy(quads, codes, sizeof quads);
    for (int width = WIDEST_PLANE, up = 0; width; width /= 2)
        if (bits & width) {
            for (int q = 0; q < QUADS; q++) {
                uint8_t *at = group + (up + PLANE_LINE(width, q)) * LINE_BYTES + n * QUAD;
                uint32_t word;
                memcpy(&word, at, sizeof word);
                word |= (quads[q] >> up & PLANE_MASK(width)) << PLANE_SHIFT(width, q);
                memcpy(at, &word, sizeof word);
            }
            up += width;
        }
}

/* Read the codes of quad q of `count` outputs from n on, a byte for each input. */
static inline void read_quad(uint32_t *codes, const uint8_t *group, int bits, int q, int n, int count)
{
    memset(codes, 0, count * sizeof *codes);
    for (int width = WIDEST_PLANE, up = 0; width; width /= 2)
        if (bits & width) {
            const uint8_t *line = group + (up + PLANE_LINE(width, q)) * LINE_BYTES + n * QUAD;
            for (int i = 0; i < count; i++) {
                uint32_t word;
                memcpy(&word, line + i * QUAD, sizeof word);
                codes[i] |= (word >> PLANE_SHIFT(width, q) & PLANE_MASK(width)) << up;
            }
            up += width;
        }
}

/* The code of input i of a quad. */
static inline int code_of(uint32_t quad, int i)
{
    return quad >> 8 * i & 255;
}

typedef struct Packing {
    const Matrix *to;
    const uint8_t *blocks;
    const int64_t *order;
} Packing;

/* Pack block `number` of output n of a panel. */
static void pack_block(const Matrix *to, int panel, int n, int number, const void *block)
{
    const int dtype = to->dtype, groups = BLOCK_GROUPS[dtype];
    gguf_write_scales(dtype, scales_at(to, panel) + number * BLOCK_SCALE_BYTES[dtype], n, block);
    for (int g = 0; g < groups; g++) {
        uint8_t codes[GROUP];
        gguf_codes(codes, dtype, block, g);
        write_codes(group_at(to, panel, number * groups + g), BITS[dtype], n, codes);
    }
}

static int blocks_of(const Matrix *matrix)
{
    return matrix->padded / GROUP / BLOCK_GROUPS[matrix->dtype];
}

static void clear_panel(const Matrix *to, int panel)
{
    memset(group_at(to, panel, 0), 0, matrix_bytes(to->dtype, PANEL, to->inputs));
    memset(scales_at(to, panel), 0, matrix_scale_bytes(to->dtype, PANEL, to->inputs));
}

static void pack_panel(const Packing *packing, int panel)
{
    const Matrix *to = packing->to;
    const int blocks = blocks_of(to);
    const size_t bytes = gguf_block_bytes(to->dtype);
    clear_panel(to, panel);
    for (int n = 0; n < PANEL && panel * PANEL + n < to->outputs; n++) {
        const uint8_t *row = packing->blocks + packing->order[panel * PANEL + n] * blocks * bytes;
        for (int number = 0; number < blocks; number++)
            pack_block(to, panel, n, number, row + number * bytes);
    }
}

static void pack_some(Team *team, int thread, void *arg)
{
    const Packing *packing = arg;
    (void)thread;
    for (int panel; (panel = team_take(team, ceil_div(packing->to->outputs, PANEL))) >= 0;)
        pack_panel(packing, panel);
}

void gguf_pack(const Matrix *to, const uint8_t *blocks, const int64_t *order, int threads)
{
    Packing packing = {to, blocks, order};
    team_run(threads, pack_some, &packing);
}

/* Write the mean squares of rows. */
static void mean_squares(float means[PANEL], const Matrix *to, const Rows *rows)
{
    Tile tile;
    memset(means, 0, PANEL * sizeof *means);
    for (int g = 0; g < to->padded / GROUP; g++) {
        rows_tile(tile, rows, g * GROUP);
        gguf_add_squares(means, tile);
    }
    for (int n = 0; n < PANEL; n++)
        means[n] /= to->inputs;
}

void gguf_quantize(const Matrix *to, int panel, const Rows *rows, const float *importance)
{
    const int dtype = to->dtype, groups = BLOCK_GROUPS[dtype];
    Importance block = {0};
    clear_panel(to, panel);
    if (importance && groups == 1)
        mean_squares(block.mean_squares, to, rows);
    for (int number = 0; number < blocks_of(to); number++) {
        Tile tiles[SUPER_GROUPS];
        for (int g = 0; g < groups; g++)
            rows_tile(tiles[g], rows, (number * groups + g) * GROUP);
        char *scales = scales_at(to, panel) + number * BLOCK_SCALE_BYTES[dtype];
        block.inputs = importance ? importance + number * groups * GROUP : importance;
        gguf_quantize_block(dtype, group_at(to, panel, number * groups), scales, tiles, &block);
    }
}

/* A code less its zero. */
static inline int integer_of(int dtype, int code)
{
    return (has_entries(dtype) ? entries_of(dtype)[code] : code) - ZERO[dtype];
}

static inline float value_of(int dtype, int code, GroupScales scales, int n)
{
    return scales.scale[n] * integer_of(dtype, code) - scales.min[n];
}

void gguf_row(const Matrix *matrix, int panel, int n, float *row)
{
    const int dtype = matrix->dtype;
    for (int first = 0; first < matrix->inputs; first += HALF) {
        const int group = first / GROUP;
        const GroupScales scales = gguf_scales(dtype, scales_at(matrix, panel), group, first / HALF % 2);
        const uint8_t *codes = group_at(matrix, panel, group);
        for (int k = first; k < first + HALF && k < matrix->inputs; k += QUAD) {
            uint32_t quad;
            read_quad(&quad, codes, BITS[dtype], k % GROUP / QUAD, n, 1);
            for (int i = 0; i < QUAD && k + i < matrix->inputs; i++)
                row[k + i] = value_of(dtype, code_of(quad, i), scales, n);
        }
    }
}

void gguf_tile(Tile tile, const Matrix *matrix, int panel, int group)
{
    const int dtype = matrix->dtype;
    const uint8_t *codes = group_at(matrix, panel, group);
    for (int first = 0; first < GROUP; first += HALF) {
        const GroupScales scales = gguf_scales(dtype, scales_at(matrix, panel), group, first / HALF);
        for (int k = first; k < first + HALF; k += QUAD) {
            uint32_t quads[PANEL];
            read_quad(quads, codes, BITS[dtype], k / QUAD, 0, PANEL);
            for (int i = 0; i < QUAD; i++)
                for (int n = 0; n < PANEL; n++)
                    tile[k + i][n] = value_of(dtype, code_of(quads[n], i), scales, n);
        }
    }
}
