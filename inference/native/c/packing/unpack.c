/* Unpacks a matrix into rows, one tile of GROUP inputs × PANEL outputs at a time, or a single row. */
#include "packing/gguf.h"
#include "packing/matrix.h"
#include "packing/rows.h"
#include "rounding.h"
#include "simd/bfloat.h"
#include "simd/half.h"
#include "thread_team.h"

typedef struct Unpacking {
    const Matrix *matrix;
    char *to;
    int dtype;
    int64_t stride;
    int first, end;
} Unpacking;

static void read_f32(Tile tile, const float *values)
{
    memcpy(tile, values, sizeof(Tile));
}

static void read_bf16(Tile tile, const uint16_t *values)
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            tile[k][n] = bfloat_read(values[(k / 2 * PANEL + n) * 2 + k % 2]);
}

static void read_f16(Tile tile, const uint16_t *values)
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            tile[k][n] = half_read(values[k * PANEL + n]);
}

static void read_int8(Tile tile, const uint8_t *values, const float *scales)
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            tile[k][n] = int8_at(values, k, n) * scales[n];
}

static void read_int4(Tile tile, const uint8_t *values, const uint16_t *scales)
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            tile[k][n] = int4_at(values, k, n) * bfloat_read(scales[n]);
}

static void read_tile(Tile tile, const Matrix *matrix, int panel, int group)
{
    const int groups = matrix->padded / GROUP;
    const size_t place = (size_t)panel * groups + group;
    const uint8_t *values = (const uint8_t *)matrix->values;
    switch (matrix->dtype) {
    case F32: read_f32(tile, (const float *)values + place * TILE); break;
    case BF16: read_bf16(tile, (const uint16_t *)values + place * TILE); break;
    case F16: read_f16(tile, (const uint16_t *)values + place * TILE); break;
    case INT8: read_int8(tile, values + place * TILE, (const float *)matrix->scales + panel * PANEL); break;
    case INT4: read_int4(tile, values + place * TILE / 2, (const uint16_t *)matrix->scales + place * PANEL); break;
    default: gguf_tile(tile, matrix, panel, group);
    }
}

static void write_row(void *to, int dtype, Tile tile, int n, int inputs)
{
    float *floats = to;
    uint16_t *halves = to;
    for (int k = 0; k < inputs; k++)
        if (dtype == F32)
            floats[k] = tile[k][n];
        else
            halves[k] = bfloat_round(tile[k][n]);
}

/* Rows of a BF16 panel in BF16 again: the bits of two inputs at a time, without a detour through floats. */
static void copy_bf16_panel(const Unpacking *unpacking, int row, int count)
{
    const Matrix *matrix = unpacking->matrix;
    const uint16_t *panel = (const uint16_t *)matrix->values + (size_t)row * matrix->padded;
    uint16_t *to = (uint16_t *)unpacking->to + (row - unpacking->first) * unpacking->stride;
    for (int n = 0; n < count; n++, to += unpacking->stride) {
        const uint16_t *pairs = panel + 2 * n;
        for (int k = 0; k + 1 < matrix->inputs; k += 2)
            memcpy(to + k, pairs + k * PANEL, 2 * sizeof *to);
        if (matrix->inputs % 2)
            to[matrix->inputs - 1] = pairs[(matrix->inputs - 1) * PANEL];
    }
}

static void unpack_panel(const Unpacking *unpacking, int row, int count)
{
    Tile tile;
    const Matrix *matrix = unpacking->matrix;
    const size_t size = dtype_bytes(unpacking->dtype);
    char *to = unpacking->to + (row - unpacking->first) * unpacking->stride * size;
    if (matrix->dtype == BF16 && unpacking->dtype == BF16) {
        copy_bf16_panel(unpacking, row, count);
        return;
    }
    for (int input = 0; input < matrix->inputs; input += GROUP) {
        const int inputs = matrix->inputs - input < GROUP ? matrix->inputs - input : GROUP;
        read_tile(tile, matrix, row / PANEL, input / GROUP);
        for (int n = 0; n < count; n++)
            write_row(to + (n * unpacking->stride + input) * size, unpacking->dtype, tile, n, inputs);
    }
}

static void unpack_some(Team *team, int thread, void *arg)
{
    const Unpacking *unpacking = arg;
    (void)thread;
    for (int task; (task = team_take(team, ceil_div(unpacking->end - unpacking->first, PANEL))) >= 0;) {
        const int row = unpacking->first + task * PANEL;
        unpack_panel(unpacking, row, unpacking->end - row < PANEL ? unpacking->end - row : PANEL);
    }
}

void matrix_unpack(const Matrix *matrix, void *rows, int dtype, int64_t stride, int first, int end, int threads)
{
    Unpacking unpacking = {matrix, rows, dtype, stride, first, end};
    team_run(threads, unpack_some, &unpacking);
}

void matrix_row(const Matrix *matrix, int output, float *row)
{
    const int panel = output / PANEL, n = output % PANEL, groups = matrix->padded / GROUP;
    const size_t start = (size_t)panel * matrix->padded * PANEL;
    const float *floats = (const float *)matrix->values + start;
    const uint16_t *halves = (const uint16_t *)matrix->values + start;
    const uint8_t *bytes = (const uint8_t *)matrix->values + start;
    const uint8_t *nibbles = (const uint8_t *)matrix->values + start / 2;
    const float *output_scales = (const float *)matrix->scales + output;
    const uint16_t *group_scales = (const uint16_t *)matrix->scales + (size_t)panel * groups * PANEL + n;
    if (is_gguf(matrix->dtype)) {
        gguf_row(matrix, panel, n, row);
        return;
    }
    for (int k = 0; k < matrix->inputs; k++) {
        switch (matrix->dtype) {
        case F32: row[k] = floats[k * PANEL + n]; break;
        case BF16: row[k] = bfloat_read(halves[(k / 2 * PANEL + n) * 2 + k % 2]); break;
        case F16: row[k] = half_read(halves[k * PANEL + n]); break;
        case INT8: row[k] = int8_at(bytes, k, n) * *output_scales; break;
        case INT4: row[k] = int4_at(nibbles, k, n) * bfloat_read(group_scales[k / GROUP * PANEL]); break;
        }
    }
}
