/* Lays out the workspace. The same code, run without memory, computes its size. */
#include "step/run.h"

#include "rounding.h"
#include "step/kv_tile.h"

enum { ALIGNMENT = 64 };

/* Hands out aligned memory from front to back; with memory null it only counts the bytes. */
typedef struct Arena {
    char *memory;
    size_t used;
} Arena;

static void *take(Arena *arena, size_t bytes)
{
    char *at = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += round_up(bytes, ALIGNMENT);
    return at;
}

static float *take_floats(Arena *arena, size_t rows, size_t columns)
{
    return take(arena, rows * columns * sizeof(float));
}

static Activations take_activations(Arena *arena, unsigned kinds, int rows, int inputs)
{
    void *at = take(arena, activations_bytes(kinds, rows, inputs));
    return at ? activations_at(at, kinds, rows, inputs) : (Activations){.kinds = kinds};
}

static OnlineSoftmax take_softmax(Arena *arena, int rows, int width)
{
    void *at = take(arena, softmax_bytes(rows, width));
    return at ? softmax_at(at, rows, width) : (OnlineSoftmax){rows, width, NULL, NULL, NULL};
}

static int padded(int count)
{
    return (int)round_up(count, PANEL);
}

static Scratch scratch_at(const Run *run, Arena *arena)
{
    const Model *model = run->model;
    const int rows = run->attention_plan.rows, tile = TILE_PANELS * PANEL;
    return (Scratch){
        .queries = take(arena, inputs_bytes(model->dtype, rows, model->head_dim)),
        .keys = take(arena, kv_tile_bytes(model->dtype, model->head_dim)),
        .values = take(arena, kv_tile_bytes(model->dtype, model->head_dim)),
        .weights = take(arena, inputs_bytes(model->dtype, rows, KV_TILE)),
        .scores = take_floats(arena, rows, KV_TILE),
        .sum = take_softmax(arena, rows, run->width),
        .span = take_softmax(arena, rows, run->width),
        .tile = take_floats(arena, run->block, tile),
        .other = take_floats(arena, run->block, tile),
    };
}

Scratch run_scratch(const Run *run, int thread)
{
    Arena arena = {run->scratch + thread * run->scratch_bytes, 0};
    return scratch_at(run, &arena);
}

OnlineSoftmax run_partial(const Run *run, int item, int group)
{
    const size_t number = (size_t)item * run->model->num_kv_heads + group;
    const size_t bytes = softmax_bytes(run->attention_plan.rows, run->width);
    return softmax_at((char *)run->partial + number * bytes, run->attention_plan.rows, run->width);
}

static int rows_at_most(const Run *run)
{
    return run->step->tokens > run->step->num_logits ? run->step->tokens : run->step->num_logits;
}

/* Choose the block size: if there are several blocks, a multiple of PANEL. */
static void divide_rows(Run *run)
{
    const int rows = rows_at_most(run);
    const int blocks = ceil_div(rows, MOST_BLOCK);
    run->block = blocks > 1 ? padded(ceil_div(rows, blocks)) : rows;
    run->blocks = ceil_div(run->step->tokens, run->block);
}

static void widths(Run *run)
{
    const Model *model = run->model;
    const int keys = padded(model->num_kv_heads * model->head_dim);
    run->width = padded(model->head_dim);
    run->wide = padded(model->hidden);
    run->mixed_wide = padded(model->num_heads * model->head_dim);
    run->key = run->mixed_wide;
    run->value = run->key + keys;
    run->states_stride = run->value + keys;
}

static void take_rows(Run *run, Arena *arena)
{
    const Model *model = run->model;
    const int tokens = run->step->tokens;
    const unsigned of_deltas = run->step->num_spans ? kind_of(model->dtype) : 0;
    unsigned normed = of_deltas, attended = of_deltas, activated = of_deltas;
    int inner = 0;
    for (int i = 0; i < model->layers; i++) {
        const Layer *layer = &model->layer[i];
        normed |= kind_of(layer->query.dtype) | kind_of(layer->key.dtype) | kind_of(layer->value.dtype);
        normed |= kind_of(layer->gate.dtype) | kind_of(layer->up.dtype);
        attended |= kind_of(layer->output.dtype);
        activated |= kind_of(layer->down.dtype);
        inner = layer->down.inputs > inner ? layer->down.inputs : inner;
    }
    run->x = take_floats(arena, tokens, run->wide);
    run->y = take_floats(arena, tokens, run->wide);
    run->states = take_floats(arena, tokens, run->states_stride);
    run->mixed = take_floats(arena, tokens, run->mixed_wide);
    run->normed = take_activations(arena, normed, tokens, model->hidden);
    run->attended = take_activations(arena, attended, tokens, model->num_heads * model->head_dim);
    run->activated = take_activations(arena, activated, tokens, inner);
    run->last = take_activations(arena, kind_of(model->lm_head.dtype) | of_deltas, run->step->num_logits, model->hidden);
    run->low_stride = padded(run->step->max_rank);
    for (int i = 0; i < MOST_PRODUCTS && of_deltas; i++)
        run->low[i] = take_floats(arena, rows_at_most(run), run->low_stride);
}

Run run_at(const Model *model, const Step *step, void *memory, size_t *bytes)
{
    Arena arena = {memory, 0};
    Run run = {.model = model, .step = step, .attention_plan = plan_count(model, step)};
    divide_rows(&run);
    widths(&run);
    take_rows(&run, &arena);
    run.done = take(&arena, run.blocks * sizeof *run.done);
    AttentionPlan *plan = &run.attention_plan;
    plan->query_tile = take(&arena, plan->num_query_tiles * sizeof *plan->query_tile);
    plan->item = take(&arena, plan->items * sizeof *plan->item);
    run.partial = take(&arena, (size_t)plan->split * model->num_kv_heads * softmax_bytes(plan->rows, run.width));
    Arena of_a_thread = {NULL, 0};
    scratch_at(&run, &of_a_thread);
    run.scratch_bytes = of_a_thread.used;
    run.scratch = take(&arena, run.scratch_bytes * model->threads);
    *bytes = arena.used;
    return run;
}

static int is_last(const Run *run, int layer)
{
    return layer + 1 == run->model->layers;
}

int run_rows(const Run *run, int layer)
{
    return is_last(run, layer) ? run->step->num_outputs : run->step->tokens;
}

int run_token(const Run *run, int layer, int row)
{
    return is_last(run, layer) ? (int)run->step->output_indices[row] : row;
}

int run_row(const Run *run, int layer, int token)
{
    int low = 0, high = run->step->num_outputs;
    if (!is_last(run, layer))
        return token;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (run->step->output_indices[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
