/* Deltas of adapters: (x aᵀ) bᵀ by the kernels of the products, for the rows of each span. */
#include "delta.h"

#include "rounding.h"

typedef struct Rows {
    int first, end;
} Rows;

static const Delta *delta_of(const AdapterSpan *span, DeltaOf of)
{
    const Delta *delta = of.which == HEAD_DELTA ? span->head : &span->layers[of.layer].of[of.which];
    return delta && (delta->a.values || delta->factor || delta->shift) ? delta : NULL;
}

/* The rows of a span among those of the product, within [first, end). The rows of a product are the step's tokens, those
 * that the last layer outputs, or those with logits. */
static Rows rows_of(const Run *run, const AdapterSpan *span, DeltaOf of, int first, int end)
{
    Rows rows = {span->first, span->end};
    if (of.which == HEAD_DELTA)
        rows = (Rows){span->logits_first, span->logits_end};
    else if (of.rows != run->step->tokens)
        rows = (Rows){run_row(run, of.layer, span->first), run_row(run, of.layer, span->end)};
    return (Rows){rows.first > first ? rows.first : first, rows.end < end ? rows.end : end};
}

static void project(const Run *run, const Delta *delta, const Activations *inputs, Rows rows, int place, float *low)
{
    const int panels = ceil_div(delta->a.outputs, PANEL), stride = TILE_PANELS * PANEL;
    for (int panel = 0; panel < panels; panel += TILE_PANELS) {
        const int end = panel + TILE_PANELS < panels ? panel + TILE_PANELS : panels, first = panel * PANEL;
        const int count = end * PANEL < delta->a.outputs ? end * PANEL - first : delta->a.outputs - first;
        multiply(&(GemmTask){
            .weight = &delta->a,
            .rows = &inputs->of[delta->a.dtype],
            .first = rows.first,
            .end = rows.end,
            .panel = panel,
            .panels = end,
            .out = low,
            .stride = stride,
        });
        for (int row = rows.first; row < rows.end; row++)
            inputs_write_part(&run->low[place], row, first, low + (size_t)(row - rows.first) * stride, count);
    }
}

void deltas_project(const Run *run, Team *team, Scratch *scratch, const Activations *inputs, DeltaOf of, int count)
{
    const int spans = run->step->num_spans, blocks = ceil_div(of.rows, run->block);
    int task;
    while ((task = team_take(team, count * blocks * spans)) >= 0) {
        const AdapterSpan *span = &run->step->spans[task % spans];
        const int block = task / spans % blocks, place = task / spans / blocks;
        const Delta *delta = delta_of(span, (DeltaOf){of.which + place, of.layer, of.rows});
        const Rows rows = rows_of(run, span, of, block * run->block, (block + 1) * run->block);
        if (delta && delta->a.values && rows.first < rows.end)
            project(run, delta, inputs, rows, place, scratch->tile);
    }
    team_meet(team);
}

static void change(const Delta *delta, const GemmTask *task)
{
    const int first = task->panel * PANEL, end = task->panels * PANEL;
    const int count = (end < delta->b.outputs ? end : delta->b.outputs) - first;
    for (int row = 0; row < task->end - task->first; row++) {
        float *out = task->out + row * task->stride;
        for (int k = 0; delta->factor && k < count; k++)
            out[k] *= delta->factor[first + k];
        for (int k = 0; delta->shift && k < count; k++)
            out[k] += delta->shift[first + k];
    }
}

void deltas_add(const Run *run, DeltaOf of, int place, const GemmTask *task)
{
    for (int i = 0; i < run->step->num_spans; i++) {
        const Delta *delta = delta_of(&run->step->spans[i], of);
        const Rows rows = rows_of(run, &run->step->spans[i], of, task->first, task->end);
        if (!delta || rows.first >= rows.end)
            continue;
        GemmTask low = *task;
        low.weight = &delta->b;
        low.rows = &run->low[place];
        low.first = rows.first;
        low.end = rows.end;
        low.out += (rows.first - task->first) * task->stride;
        low.adds = 1;
        low.next = NULL;
        change(delta, &low);
        if (delta->a.values)
            multiply(&low);
    }
}
