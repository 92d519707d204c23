/* A whole step: embed the tokens, run the layers, and compute the logits of the selected tokens. The threads share
 * each phase; see layer.c. */
#include "step/step.h"

#include "simd/lanes.h"
#include "simd/store.h"
#include "step/delta.h"
#include "step/layer.h"
#include "step/products.h"

static void embed(const Run *run, Team *team)
{
    const Model *model = run->model;
    int token;
    while ((token = team_take(team, run->step->tokens)) >= 0) {
        float *x = run->x + (size_t)token * run->wide;
        matrix_row(&model->embedding, (int)run->step->ids[token], x);
        for (int k = 0; k < model->hidden; k++)
            x[k] *= model->embedding_scale;
        row_enter(run, token, model->layer[0].before_attention, &run->normed, token);
    }
    team_meet(team);
}

static void cap_logits(float *logits, int count, float cap)
{
    for (int k = 0; k < count; k += LANES) {
        const int remaining = count - k < LANES ? count - k : LANES;
        const Lanes capped = cap * lanes_tanh(lanes_load_part(logits + k, remaining) / cap);
        memcpy(logits + k, &capped, remaining * sizeof(float));
    }
}

static void write_logits(const Run *run, const Tile *tile, const void *next, Scratch *scratch)
{
    const Model *model = run->model;
    const Matrix *head = &model->lm_head;
    const int output = tile->panel * PANEL, stride = TILE_PANELS * PANEL, width = (tile->panels - tile->panel) * PANEL;
    const int count = head->outputs - output < width ? head->outputs - output : width;
    const GemmTask task = task_of(head, inputs_for(&run->last, head), tile, scratch->tile, stride, next);
    multiply(&task);
    if (run->step->num_spans)
        deltas_add(run, (DeltaOf){HEAD_DELTA, 0, run->step->num_logits}, 0, &task);
    for (int row = tile->first; row < tile->end; row++) {
        float *logits = scratch->tile + (size_t)(row - tile->first) * stride;
        for (int k = 0; head->bias && k < count; k++)
            logits[k] += head->bias[output + k];
        if (model->final_logit_softcap)
            cap_logits(logits, count, model->final_logit_softcap);
        store(run->step->logits, (int64_t)row * head->outputs + output, model->dtype, logits, count);
    }
}

static void head(const Run *run, Team *team, Scratch *scratch)
{
    const Tiling tiling = tiling_of(run, &run->model->lm_head, run->step->num_logits, 1);
    int task;
    if (run->step->num_spans)
        deltas_project(run, team, &run->last, (DeltaOf){HEAD_DELTA, 0, run->step->num_logits}, 1);
    while ((task = team_take(team, tiling.num_tasks)) >= 0) {
        const int next = team_after(team, task, tiling.num_tasks);
        const Tile tile = tile_of(run, &tiling, task), after = tile_of(run, &tiling, next);
        write_logits(run, &tile, next < 0 ? NULL : panel_at(&run->model->lm_head, after.panel), scratch);
    }
}

static void work(Team *team, int thread, void *arg)
{
    const Run *run = arg;
    Scratch scratch = run_scratch(run, thread);
    embed(run, team);
    for (int i = 0; i < run->model->layers; i++)
        layer_run(run, i, team, &scratch);
    if (run->step->num_logits)
        head(run, team, &scratch);
}

size_t step_bytes(const Model *model, const Step *step)
{
    size_t bytes;
    run_at(model, step, NULL, &bytes);
    return bytes;
}

void step_run(const Model *model, const Step *step)
{
    size_t bytes;
    Run run = run_at(model, step, step->workspace, &bytes);
    plan_fill(&run.attention_plan, model, step);
    for (int i = 0; i < run.blocks; i++)
        atomic_init(&run.done[i], 0);
    team_run(model->threads, work, &run);
}
