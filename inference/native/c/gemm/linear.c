/* y = x wᵀ + bias by a team: the threads convert the inputs, then compute parts of y as they become free. */
#include "gemm/multiply.h"
#include "rounding.h"
#include "simd/store.h"
#include "thread_team.h"

/* The size of a part of y: its weights and its floats fit a core's cache. CONVERTED: rows per conversion task. */
enum { PART_ROWS = 96, PART_PANELS = 4, PART_WIDTH = PART_PANELS * PANEL, CONVERTED = 4 };

typedef struct Linear {
    const Matrix *weight;
    const char *x;
    void *y;
    int dtype, rows;
    Inputs inputs;
} Linear;

static void convert(const Linear *product, int task)
{
    const int inputs = product->weight->inputs, first = task * CONVERTED;
    const size_t row_bytes = inputs * dtype_bytes(product->dtype);
    for (int row = first; row < first + CONVERTED && row < product->rows; row++)
        inputs_convert(&product->inputs, row, product->x + row * row_bytes, product->dtype, inputs);
}

static void compute(const Linear *product, int row_part, int panel_part)
{
    _Alignas(64) float out[PART_ROWS * PART_WIDTH];
    const Matrix *weight = product->weight;
    const int row = row_part * PART_ROWS, panel = panel_part * PART_PANELS, output = panel * PANEL;
    const int end = row + PART_ROWS < product->rows ? row + PART_ROWS : product->rows;
    const int all = ceil_div(weight->outputs, PANEL);
    const int panels = panel + PART_PANELS < all ? panel + PART_PANELS : all;
    const int count = panels * PANEL < weight->outputs ? panels * PANEL - output : weight->outputs - output;
    const float *bias = weight->bias ? weight->bias + output : NULL;
    const GemmTask task = {weight, &product->inputs, row, end, panel, panels, out, PART_WIDTH, 0, NULL};
    multiply(&task);
    for (int r = row; r < end; r++) {
        float *sums = out + (r - row) * PART_WIDTH;
        for (int n = 0; bias && n < count; n++)
            sums[n] += bias[n];
        store(product->y, (int64_t)r * weight->outputs + output, product->dtype, sums, count);
    }
}

static void work(Team *team, int thread, void *arg)
{
    const Linear *product = arg;
    const int row_parts = ceil_div(product->rows, PART_ROWS);
    const int panel_parts = ceil_div(product->weight->outputs, PART_WIDTH);
    (void)thread;
    for (int task; (task = team_take(team, ceil_div(product->rows, CONVERTED))) >= 0;)
        convert(product, task);
    team_meet(team);
    for (int task; (task = team_take(team, row_parts * panel_parts)) >= 0;)
        compute(product, task % row_parts, task / row_parts);
}

size_t linear_bytes(const Matrix *weight, int rows)
{
    return inputs_bytes(weight->dtype, rows, weight->inputs);
}

void linear(const Matrix *weight, const void *x, void *y, int dtype, int rows, void *memory, int threads)
{
    Linear product = {weight, x, y, dtype, rows, inputs_at(memory, weight->dtype, rows, weight->inputs)};
    team_run(threads, work, &product);
}
