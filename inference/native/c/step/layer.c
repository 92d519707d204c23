/* The phases of a layer. Free threads take the tasks of a product. The thread that does the last task of a block of
 * rows also does what follows for these rows, so that a phase ends with the input of the next one. */
#include "step/layer.h"

#include <string.h>

#include "simd/store.h"
#include "step/activation_function.h"
#include "step/attention.h"
#include "step/delta.h"
#include "step/kv_block.h"
#include "step/norm.h"
#include "step/products.h"
#include "step/rotary.h"

static float *row_of(float *rows, int row, int wide)
{
    return rows + (size_t)row * wide;
}

static void add_bias(float *to, const Matrix *matrix)
{
    if (matrix->bias)
        for (int k = 0; k < matrix->outputs; k++)
            to[k] += matrix->bias[k];
}

void row_enter(const Run *run, int token, const float *norm, const Activations *to, int row)
{
    const Model *model = run->model;
    const float *x = row_of(run->x, token, run->wide);
    float *normed = row_of(run->y, row, run->wide);
    if (norm)
        norm_write(normed, x, norm, model->hidden, model->epsilon);
    activations_write(to, row, 0, norm ? normed : x, model->hidden);
}

/* x[token] += residual_scale × norm(y[row] + bias) */
static void add_to_stream(const Run *run, int token, int row, const Matrix *matrix, const float *norm)
{
    const Model *model = run->model;
    float *x = row_of(run->x, token, run->wide), *y = row_of(run->y, row, run->wide);
    add_bias(y, matrix);
    if (norm)
        norm_write(y, y, norm, model->hidden, model->epsilon);
    for (int k = 0; k < model->hidden; k++)
        x[k] += y[k] * model->residual_scale;
}

static void finish_heads(const Run *run, const Layer *layer, int token, float *states, int num_heads, const float *norm)
{
    const Model *model = run->model;
    const int half = model->rotary / 2;
    const size_t turned = (size_t)run->step->positions[token] * half;
    for (int head = 0; head < num_heads; head++, states += model->head_dim) {
        if (norm)
            norm_write(states, states, norm, model->head_dim, model->epsilon);
        if (layer->cos)
            rotary_turn(states, layer->cos + turned, layer->sin + turned, half);
    }
}

/* Store the keys or values (num_kv_heads, head_dim) of a token in a slot of the pages. */
static void store_heads(const Model *model, void *pages, int64_t slot, const float *heads)
{
    const int width = model->num_kv_heads * model->head_dim;
    if (model->kv_dtype != Q8_0) {
        store(pages, slot * width, model->kv_dtype, heads, width);
        return;
    }
    const int blocks = ceil_div(model->head_dim, GROUP);
    KVBlock *to = (KVBlock *)pages + slot * model->num_kv_heads * blocks;
    for (int head = 0; head < model->num_kv_heads; head++)
        kv_blocks_write(to + head * blocks, heads + head * model->head_dim, model->head_dim);
}

/* Add biases, normalize and rotate. The queries stay in `states`; the keys and values are stored in their pages. */
static void finish_states(const Run *run, const Layer *layer, int token)
{
    const Model *model = run->model;
    const int64_t slot = run->step->slot_mapping[(int64_t)layer->group * run->step->tokens + token];
    float *states = row_of(run->states, token, run->states_stride);
    add_bias(states, &layer->query);
    add_bias(states + run->key, &layer->key);
    add_bias(states + run->value, &layer->value);
    finish_heads(run, layer, token, states, model->num_heads, layer->query_norm);
    finish_heads(run, layer, token, states + run->key, model->num_kv_heads, layer->key_norm);
    store_heads(model, layer->keys, slot, states + run->key);
    store_heads(model, layer->values, slot, states + run->value);
}

static void after_states(const Run *run, int number, int first, int end)
{
    for (int token = first; token < end; token++)
        finish_states(run, &run->model->layer[number], token);
}

static void after_output(const Run *run, int number, int first, int end)
{
    const Layer *layer = &run->model->layer[number];
    for (int row = first; row < end; row++) {
        const int token = run_token(run, number, row);
        add_to_stream(run, token, row, &layer->output, layer->after_attention);
        row_enter(run, token, layer->before_mlp, &run->normed, row);
    }
}

/* Apply the final norm to a token that the last layer outputs: its hidden state, and the input of the head. */
static void leave(const Run *run, int token, int row)
{
    const Model *model = run->model;
    const Step *step = run->step;
    const int logits_row = step->logits_rows ? (int)step->logits_rows[row] : row;
    float *normed = row_of(run->y, row, run->wide);
    norm_write(normed, row_of(run->x, token, run->wide), model->final_norm, model->hidden, model->epsilon);
    if (step->hidden)
        memcpy(step->hidden + (size_t)row * model->hidden, normed, model->hidden * sizeof(float));
    if (logits_row >= 0)
        activations_write(&run->last, logits_row, 0, normed, model->hidden);
}

static void after_down(const Run *run, int number, int first, int end)
{
    const Model *model = run->model;
    const Layer *layer = &model->layer[number];
    const int last = number + 1 == model->layers;
    for (int row = first; row < end; row++) {
        const int token = run_token(run, number, row);
        add_to_stream(run, token, row, &layer->down, layer->after_mlp);
        if (last)
            leave(run, token, row);
        else
            row_enter(run, token, layer[1].before_attention, &run->normed, row);
    }
}

/* A tile of activation(gate(n)) × up(n), written to `activated`. */
static void gate_and_up(const Run *run, int number, int rows, const Tile *tile, const Tile *next, Scratch *scratch)
{
    const Layer *layer = &run->model->layer[number];
    const Matrix *gate = &layer->gate, *up = &layer->up;
    const int output = tile->panel * PANEL, stride = TILE_PANELS * PANEL;
    const int remaining = gate->outputs - output, width = (tile->panels - tile->panel) * PANEL;
    const int count = remaining < width ? remaining : width;
    const Inputs *to_gate = inputs_for(&run->normed, gate), *to_up = inputs_for(&run->normed, up);
    const GemmTask gates = task_of(gate, to_gate, tile, scratch->tile, stride, panel_at(up, tile->panel));
    const GemmTask ups = task_of(up, to_up, tile, scratch->other, stride, next ? panel_at(gate, next->panel) : NULL);
    multiply(&gates);
    multiply(&ups);
    if (run->step->num_spans) {
        deltas_add(run, (DeltaOf){GATE_DELTA, number, rows}, 0, &gates);
        deltas_add(run, (DeltaOf){UP_DELTA, number, rows}, 1, &ups);
    }
    for (int row = tile->first; row < tile->end; row++) {
        float *gated = row_of(scratch->tile, row - tile->first, stride);
        float *other = row_of(scratch->other, row - tile->first, stride);
        for (int k = 0; gate->bias && k < count; k++)
            gated[k] += gate->bias[output + k];
        for (int k = 0; up->bias && k < count; k++)
            other[k] += up->bias[output + k];
        activate(run->model->activation, gated, other, count);
        activations_write(&run->activated, row, output, gated, count);
    }
}

static void mlp(const Run *run, int number, int rows, Team *team, Scratch *scratch)
{
    const Tiling tiling = tiling_of(run, &run->model->layer[number].gate, rows, GROUP / PANEL);
    int task;
    if (run->step->num_spans)
        deltas_project(run, team, &run->normed, (DeltaOf){GATE_DELTA, number, rows}, 2);
    while ((task = team_take(team, tiling.num_tasks)) >= 0) {
        const int next = team_after(team, task, tiling.num_tasks);
        const Tile tile = tile_of(run, &tiling, task), after = tile_of(run, &tiling, next);
        gate_and_up(run, number, rows, &tile, next < 0 ? NULL : &after, scratch);
    }
    team_meet(team);
}

void layer_run(const Run *run, int number, Team *team, Scratch *scratch)
{
    const Layer *layer = &run->model->layer[number];
    const Product states[] = {
        {&layer->query, &run->normed, run->states, run->states_stride, QUERY_DELTA},
        {&layer->key, &run->normed, run->states + run->key, run->states_stride, KEY_DELTA},
        {&layer->value, &run->normed, run->states + run->value, run->states_stride, VALUE_DELTA},
    };
    const Product output = {&layer->output, &run->attended, run->y, run->wide, OUTPUT_DELTA};
    const Product down = {&layer->down, &run->activated, run->y, run->wide, DOWN_DELTA};
    const int rows = run_rows(run, number);
    products(run, team, states, 3, run->step->tokens, after_states, number);
    if (!rows)
        return;
    attention(run, number, team, scratch);
    team_meet(team);
    products(run, team, &output, 1, rows, after_output, number);
    mlp(run, number, rows, team, scratch);
    products(run, team, &down, 1, rows, after_down, number);
}
