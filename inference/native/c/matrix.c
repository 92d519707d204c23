/* Matrices are packed and read back here, a tile of GROUP inputs × PANEL outputs at a time. How a tile becomes
 * integers is quantise.c's affair. */
#include "matrix.h"

#include "bfloat.h"
#include "quantise.h"

static const int BITS[] = {[F32] = 32, [BF16] = 16, [INT8] = 8, [INT4] = 4};

static int rounded_up(int count, int to)
{
    return (count + to - 1) / to * to;
}

size_t matrix_bytes(int kind, int outputs, int inputs)
{
    return (size_t)rounded_up(outputs, PANEL) * rounded_up(inputs, GROUP) * BITS[kind] / 8;
}

size_t matrix_scale_bytes(int kind, int outputs, int inputs)
{
    const size_t padded = rounded_up(outputs, PANEL);
    switch (kind) {
    case INT8: return padded * sizeof(float);
    case INT4: return padded * (rounded_up(inputs, GROUP) / GROUP) * sizeof(uint16_t);
    default: return 0;
    }
}

/* Rows of a weight as they come. */
typedef struct Rows {
    const void *values;
    int form;
    int64_t stride;
    int count, inputs;
} Rows;

static float value_at(const Rows *rows, int row, int input)
{
    const int64_t place = row * rows->stride + input;
    return rows->form == F32 ? ((const float *)rows->values)[place]
                             : bfloat_read(((const uint16_t *)rows->values)[place]);
}

static void read_tile(Tile tile, const Rows *rows, int input)
{
    const int inputs = rows->inputs - input < GROUP ? rows->inputs - input : GROUP;
    memset(tile, 0, sizeof(Tile));
    for (int n = 0; n < rows->count; n++)
        for (int k = 0; k < inputs; k++)
            tile[k][n] = value_at(rows, n, input + k);
}

static void write_bf16(uint16_t *to, Tile tile)
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            to[(k / 2 * PANEL + n) * 2 + k % 2] = bfloat_round(tile[k][n]);
}

/* The scales of a panel's outputs: 127 stands for the largest value of each. */
static void scale_outputs(float scales[PANEL], const Rows *rows)
{
    float largest[PANEL] = {0};
    for (int n = 0; n < rows->count; n++)
        for (int k = 0; k < rows->inputs; k++)
            largest[n] = __builtin_fmaxf(largest[n], __builtin_fabsf(value_at(rows, n, k)));
    for (int n = 0; n < PANEL; n++)
        scales[n] = largest[n] / 127;
}

static void pack_panel(const Matrix *to, int panel, const Rows *rows)
{
    Tile tile;
    const int groups = to->padded / GROUP;
    uint8_t *values = (uint8_t *)to->values + (size_t)panel * groups * TILE * BITS[to->kind] / 8;
    float *output_scales = (float *)to->scales + panel * PANEL;
    uint16_t *group_scales = (uint16_t *)to->scales + (size_t)panel * groups * PANEL;
    if (to->kind == INT8)
        scale_outputs(output_scales, rows);
    for (int g = 0; g < groups; g++, values += TILE * BITS[to->kind] / 8, group_scales += PANEL) {
        read_tile(tile, rows, g * GROUP);
        switch (to->kind) {
        case F32: memcpy(values, tile, sizeof tile); break;
        case BF16: write_bf16((uint16_t *)values, tile); break;
        case INT8: quantise_int8(values, tile, output_scales); break;
        case INT4: quantise_int4(values, tile, group_scales); break;
        }
    }
}

void matrix_pack(const Matrix *to, const void *rows, int form, int64_t stride, int first, int end)
{
    const int64_t size = form == F32 ? sizeof(float) : sizeof(uint16_t);
    for (int row = first; row < end; row += PANEL) {
        const int count = end - row < PANEL ? end - row : PANEL;
        const char *from = (const char *)rows + (row - first) * stride * size;
        const Rows panel = {from, form, stride, count, to->inputs};
        pack_panel(to, row / PANEL, &panel);
    }
}

void matrix_row(const Matrix *of, int output, float *row)
{
    const int panel = output / PANEL, n = output % PANEL, groups = of->padded / GROUP;
    const size_t start = (size_t)panel * of->padded * PANEL;
    const float *floats = (const float *)of->values + start;
    const uint16_t *halves = (const uint16_t *)of->values + start;
    const uint8_t *bytes = (const uint8_t *)of->values + start;
    const uint8_t *nibbles = (const uint8_t *)of->values + start / 2;
    const float *output_scales = (const float *)of->scales + output;
    const uint16_t *group_scales = (const uint16_t *)of->scales + (size_t)panel * groups * PANEL + n;
    for (int k = 0; k < of->inputs; k++) {
        switch (of->kind) {
        case F32: row[k] = floats[k * PANEL + n]; break;
        case BF16: row[k] = bfloat_read(halves[(k / 2 * PANEL + n) * 2 + k % 2]); break;
        case INT8: row[k] = int8_at(bytes, k, n) * *output_scales; break;
        case INT4: row[k] = int4_at(nibbles, k, n) * bfloat_read(group_scales[k / GROUP * PANEL]); break;
        }
    }
}
