/* Deltas of adapters: x aᵀ by the kernels of the products, into floats; then bᵀ, whose few inputs need no blocking. */
#include "step/delta.h"

#include "rounding.h"
#include "simd/lanes.h"

enum { ROWS_AT_ONCE = 4 };

typedef struct Rows {
    int first, end;
} Rows;

static const Delta *delta_of(const AdapterSpan *span, DeltaOf target)
{
    const Delta *delta = target.which == HEAD_DELTA ? span->head : &span->layers[target.layer].delta[target.which];
    return delta && (delta->b || delta->factor || delta->shift) ? delta : NULL;
}

/* The rows of a span among those of the product, within [first, end). The rows of a product are the step's tokens, those
 * that the last layer outputs, or those with logits. */
static Rows rows_of(const Run *run, const AdapterSpan *span, DeltaOf target, int first, int end)
{
    Rows rows = {span->first, span->end};
    if (target.which == HEAD_DELTA)
        rows = (Rows){span->logits_first, span->logits_end};
    else if (target.rows != run->step->tokens)
        rows = (Rows){run_row(run, target.layer, span->first), run_row(run, target.layer, span->end)};
    return (Rows){rows.first > first ? rows.first : first, rows.end < end ? rows.end : end};
}

void deltas_project(const Run *run, Team *team, const Activations *inputs, DeltaOf target, int count)
{
    const int spans = run->step->num_spans, blocks = ceil_div(target.rows, run->block);
    int task;
    while ((task = team_take(team, count * blocks * spans)) >= 0) {
        const AdapterSpan *span = &run->step->spans[task % spans];
        const int block = task / spans % blocks, place = task / spans / blocks;
        const Delta *delta = delta_of(span, (DeltaOf){target.which + place, target.layer, target.rows});
        const Rows rows = rows_of(run, span, target, block * run->block, (block + 1) * run->block);
        if (delta && delta->b && rows.first < rows.end)
            multiply(&(GemmTask){
                .weight = &delta->a,
                .rows = inputs_for(inputs, &delta->a),
                .first = rows.first,
                .end = rows.end,
                .panels = ceil_div(delta->a.outputs, PANEL),
                .out = run->low[place] + (size_t)rows.first * run->low_stride,
                .stride = run->low_stride,
            });
    }
    team_meet(team);
}

static inline Lanes weights_at(const Delta *delta, size_t place)
{
    if (delta->a.dtype == F32)
        return lanes_load((const float *)delta->b + place);
    return lanes_load_bfloats((const uint16_t *)delta->b + place);
}

/* Change a panel of a few rows. `low`: their low-rank outputs. */
static inline __attribute__((always_inline)) void change_panel(const Run *run, const Delta *delta, int panel,
                                                               const float *low, float *out, ptrdiff_t stride,
                                                               const int rows)
{
    const int rank = delta->b ? delta->a.outputs : 0;
    Lanes sums[ROWS_AT_ONCE];
    for (int r = 0; r < rows; r++) {
        sums[r] = lanes_load(out + r * stride);
        if (delta->factor)
            sums[r] *= lanes_load(delta->factor + panel * PANEL);
        if (delta->shift)
            sums[r] += lanes_load(delta->shift + panel * PANEL);
    }
    for (int k = 0; k < rank; k++) {
        const Lanes weights = weights_at(delta, ((size_t)panel * rank + k) * PANEL);
        for (int r = 0; r < rows; r++)
            sums[r] += low[r * run->low_stride + k] * weights;
    }
    for (int r = 0; r < rows; r++)
        lanes_store(out + r * stride, sums[r]);
}

void deltas_add(const Run *run, DeltaOf target, int place, const GemmTask *task)
{
    for (int i = 0; i < run->step->num_spans; i++) {
        const Delta *delta = delta_of(&run->step->spans[i], target);
        const Rows rows = rows_of(run, &run->step->spans[i], target, task->first, task->end);
        if (!delta)
            continue;
        for (int panel = task->panel; panel < task->panels; panel++) {
            float *out = task->out + (panel - task->panel) * PANEL - task->first * task->stride;
            int row = rows.first;
            for (; row + ROWS_AT_ONCE <= rows.end; row += ROWS_AT_ONCE)
                change_panel(run, delta, panel, run->low[place] + (size_t)row * run->low_stride,
                             out + row * task->stride, task->stride, ROWS_AT_ONCE);
            for (; row < rows.end; row++)
                change_panel(run, delta, panel, run->low[place] + (size_t)row * run->low_stride,
                             out + row * task->stride, task->stride, 1);
        }
    }
}
