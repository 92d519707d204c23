/* y = x wᵀ + bias by a team: inputs are converted, then blocks of the outcome are taken by whoever is free. */
#include "bfloat.h"
#include "multiply.h"
#include "team.h"

/* A part of the outcome: its weights stay in a core's cache for all its rows, and its floats too. */
enum { PART_ROWS = 96, PART_PANELS = 4, PART_WIDTH = PART_PANELS * PANEL, CONVERTED = 4 };

typedef struct Linear {
    const Matrix *weight;
    const char *x;
    char *y;
    int form, rows;
    Inputs inputs;
} Linear;

static int parts_of(int count, int part)
{
    return (count + part - 1) / part;
}

static size_t form_bytes(int form)
{
    return form == F32 ? sizeof(float) : sizeof(uint16_t);
}

static void convert(const Linear *of, int part)
{
    const int inputs = of->weight->inputs, first = part * CONVERTED;
    const size_t row_bytes = inputs * form_bytes(of->form);
    for (int row = first; row < first + CONVERTED && row < of->rows; row++)
        inputs_convert(&of->inputs, row, of->x + row * row_bytes, of->form, inputs);
}

static void store(void *to, int form, const float *from, const float *bias, int count)
{
    for (int n = 0; n < count; n++) {
        const float value = bias ? from[n] + bias[n] : from[n];
        if (form == F32)
            ((float *)to)[n] = value;
        else
            ((uint16_t *)to)[n] = bfloat_round(value);
    }
}

static void compute(const Linear *of, int row_part, int panel_part)
{
    _Alignas(64) float out[PART_ROWS * PART_WIDTH];
    const Matrix *weight = of->weight;
    const int row = row_part * PART_ROWS, panel = panel_part * PART_PANELS, output = panel * PANEL;
    const int end = row + PART_ROWS < of->rows ? row + PART_ROWS : of->rows;
    const int all = parts_of(weight->outputs, PANEL);
    const int panels = panel + PART_PANELS < all ? panel + PART_PANELS : all;
    const int count = panels * PANEL < weight->outputs ? panels * PANEL - output : weight->outputs - output;
    const float *bias = weight->bias ? weight->bias + output : NULL;
    const Part part = {weight, &of->inputs, row, end, panel, panels, out, PART_WIDTH, 0, NULL};
    multiply(&part);
    for (int r = row; r < end; r++) {
        char *to = of->y + ((size_t)r * weight->outputs + output) * form_bytes(of->form);
        store(to, of->form, out + (r - row) * PART_WIDTH, bias, count);
    }
}

static void work(Team *team, int thread, void *of_linear)
{
    const Linear *of = of_linear;
    const int row_parts = parts_of(of->rows, PART_ROWS);
    const int panel_parts = parts_of(of->weight->outputs, PART_WIDTH);
    (void)thread;
    for (int part; (part = team_take(team, parts_of(of->rows, CONVERTED))) >= 0;)
        convert(of, part);
    team_meet(team);
    for (int part; (part = team_take(team, row_parts * panel_parts)) >= 0;)
        compute(of, part % row_parts, part / row_parts);
}

size_t linear_bytes(const Matrix *weight, int rows)
{
    return inputs_bytes(weight->kind, rows, weight->inputs);
}

void linear(const Matrix *weight, const void *x, void *y, int form, int rows, void *memory, int threads)
{
    Linear of = {weight, x, y, form, rows, inputs_at(memory, weight->kind, rows, weight->inputs)};
    team_run(threads, work, &of);
}
