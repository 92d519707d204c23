/* Memory is laid out once, by one function that counts it too. */
#include "run.h"

#include "stretch.h"

enum { ALIGNMENT = 64 };

/* Memory handed out from front to back; where there is none it is only counted. */
typedef struct Arena {
    char *memory;
    size_t used;
} Arena;

static void *take(Arena *arena, size_t bytes)
{
    char *at = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static float *take_floats(Arena *arena, size_t rows, size_t columns)
{
    return take(arena, rows * columns * sizeof(float));
}

static Forms take_forms(Arena *arena, unsigned kinds, int rows, int inputs)
{
    void *at = take(arena, forms_bytes(kinds, rows, inputs));
    return at ? forms_at(at, kinds, rows, inputs) : (Forms){.kinds = kinds};
}

static Mix take_mix(Arena *arena, int rows, int width)
{
    void *at = take(arena, mix_bytes(rows, width));
    return at ? mix_at(at, rows, width) : (Mix){rows, width, NULL, NULL, NULL};
}

static int padded(int count)
{
    return (count + PANEL - 1) / PANEL * PANEL;
}

static Scratch scratch_at(const Run *run, Arena *arena)
{
    const Model *model = run->model;
    const int rows = run->plan.rows, tile = TILE_PANELS * PANEL;
    return (Scratch){
        .queries = take(arena, inputs_bytes(model->form, rows, model->head)),
        .keys = take(arena, stretch_bytes(model->form, model->head)),
        .values = take(arena, stretch_bytes(model->form, model->head)),
        .weights = take(arena, inputs_bytes(model->form, rows, STRETCH)),
        .scores = take_floats(arena, rows, STRETCH),
        .sum = take_mix(arena, rows, run->width),
        .span = take_mix(arena, rows, run->width),
        .tile = take_floats(arena, run->block, tile),
        .other = take_floats(arena, run->block, tile),
    };
}

Scratch run_scratch(const Run *run, int thread)
{
    Arena arena = {run->scratch + thread * run->scratch_bytes, 0};
    return scratch_at(run, &arena);
}

Mix run_partial(const Run *run, int item, int group)
{
    const size_t number = (size_t)item * run->model->groups + group;
    const size_t bytes = mix_bytes(run->plan.rows, run->width);
    return mix_at((char *)run->partial + number * bytes, run->plan.rows, run->width);
}

/* Blocks of one size, a multiple of PANEL where there are several. */
static void cut(Run *run)
{
    const int rows = run->step->tokens > run->step->wanted ? run->step->tokens : run->step->wanted;
    const int blocks = (rows + MOST_BLOCK - 1) / MOST_BLOCK;
    run->block = blocks > 1 ? padded((rows + blocks - 1) / blocks) : rows;
    run->blocks = (run->step->tokens + run->block - 1) / run->block;
}

static void widths(Run *run)
{
    const Model *model = run->model;
    const int keys = padded(model->groups * model->head);
    run->width = padded(model->head);
    run->wide = padded(model->hidden);
    run->mixed_wide = padded(model->heads * model->head);
    run->key = run->mixed_wide;
    run->value = run->key + keys;
    run->joined = run->value + keys;
}

static void take_rows(Run *run, Arena *arena)
{
    const Model *model = run->model;
    const int tokens = run->step->tokens;
    unsigned normed = 0, attended = 0, activated = 0;
    int inner = 0;
    for (int i = 0; i < model->layers; i++) {
        const Layer *layer = &model->layer[i];
        normed |= kind_of(&layer->query) | kind_of(&layer->key) | kind_of(&layer->value);
        normed |= kind_of(&layer->gate) | kind_of(&layer->up);
        attended |= kind_of(&layer->output);
        activated |= kind_of(&layer->down);
        inner = layer->down.inputs > inner ? layer->down.inputs : inner;
    }
    run->x = take_floats(arena, tokens, run->wide);
    run->y = take_floats(arena, tokens, run->wide);
    run->states = take_floats(arena, tokens, run->joined);
    run->mixed = take_floats(arena, tokens, run->mixed_wide);
    run->normed = take_forms(arena, normed, tokens, model->hidden);
    run->attended = take_forms(arena, attended, tokens, model->heads * model->head);
    run->activated = take_forms(arena, activated, tokens, inner);
    run->last = take_forms(arena, kind_of(&model->head_matrix), run->step->wanted, model->hidden);
}

Run run_at(const Model *model, const Step *step, void *memory, size_t *bytes)
{
    Arena arena = {memory, 0};
    Run run = {.model = model, .step = step, .plan = plan_counted(model, step)};
    cut(&run);
    widths(&run);
    take_rows(&run, &arena);
    run.done = take(&arena, run.blocks * sizeof *run.done);
    run.plan.piece = take(&arena, run.plan.pieces * sizeof *run.plan.piece);
    run.plan.item = take(&arena, run.plan.items * sizeof *run.plan.item);
    run.partial = take(&arena, (size_t)run.plan.split * model->groups * mix_bytes(run.plan.rows, run.width));
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
    return is_last(run, layer) ? run->step->wanted : run->step->tokens;
}

int run_token(const Run *run, int layer, int row)
{
    return is_last(run, layer) ? (int)run->step->want[row] : row;
}

int run_row(const Run *run, int layer, int token)
{
    int low = 0, high = run->step->wanted;
    if (!is_last(run, layer))
        return token;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (run->step->want[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
