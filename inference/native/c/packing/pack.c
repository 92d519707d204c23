/* Packs matrices, one tile of GROUP inputs × PANEL outputs at a time. rows.c makes tiles of rows; quantize.c makes
 * integers of a tile. */
#include "packing/matrix.h"

#include "packing/gguf.h"
#include "packing/quantize.h"
#include "packing/rows.h"
#include "rounding.h"
#include "simd/bfloat.h"
#include "thread_team.h"

static void write_bf16(uint16_t *to, Tile tile)
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            to[(k / 2 * PANEL + n) * 2 + k % 2] = bfloat_round(tile[k][n]);
}

/* The INT8 scales of a panel's outputs: each output's largest absolute value becomes 127. */
static void scale_outputs(float scales[PANEL], const Rows *rows)
{
    for (int n = 0; n < PANEL; n++)
        scales[n] = n < rows->count ? rows_largest(rows, n) / 127 : 0;
}

/* Pack a group of a panel. Rows that have the dtype of the matrix are copied without conversion. */
static void pack_group(const Matrix *to, uint8_t *values, const Rows *rows, int input, const float *output_scales,
                       uint16_t *group_scales)
{
    Tile tile;
    if ((int)to->dtype == rows->dtype) {
        rows_turn(values, rows, input);
        return;
    }
    rows_tile(tile, rows, input);
    switch (to->dtype) {
    case F32: memcpy(values, tile, sizeof tile); break;
    case BF16: write_bf16((uint16_t *)values, tile); break;
    case INT8: quantize_int8(values, tile, output_scales); break;
    case INT4: quantize_int4(values, tile, group_scales); break;
    }
}

static void pack_panel(const Matrix *to, int panel, const Rows *rows, const float *importance)
{
    if (is_gguf(to->dtype)) {
        gguf_quantize(to, panel, rows, importance);
        return;
    }
    const int groups = to->padded / GROUP, bytes = TILE * BITS[to->dtype] / 8;
    uint8_t *values = (uint8_t *)to->values + (size_t)panel * groups * bytes;
    float *output_scales = (float *)to->scales + panel * PANEL;
    uint16_t *group_scales = (uint16_t *)to->scales + (size_t)panel * groups * PANEL;
    if (to->dtype == INT8)
        scale_outputs(output_scales, rows);
    for (int g = 0; g < groups; g++)
        pack_group(to, values + (size_t)g * bytes, rows, g * GROUP, output_scales, group_scales + g * PANEL);
}

/* Rows [first, end) of a weight, and the matrix to pack them into. */
typedef struct Packing {
    const Matrix *to;
    Rows rows;
    int first, end;
    const float *importance;
} Packing;

static void pack_some(Team *team, int thread, void *arg)
{
    const Packing *packing = arg;
    const int all = packing->end - packing->first;
    (void)thread;
    for (int task; (task = team_take(team, ceil_div(all, PANEL))) >= 0;) {
        const int row = task * PANEL;
        Rows panel = packing->rows;
        panel.values = (const char *)panel.values + row * panel.stride * dtype_bytes(panel.dtype);
        panel.count = all - row < PANEL ? all - row : PANEL;
        pack_panel(packing->to, (packing->first + row) / PANEL, &panel, packing->importance);
    }
}

void matrix_pack(const Matrix *to, const void *rows, int dtype, int64_t stride, int first, int end,
                 const float *importance, int threads)
{
    Packing packing = {to, {rows, dtype, stride, 0, to->inputs}, first, end, importance};
    team_run(threads, pack_some, &packing);
}
