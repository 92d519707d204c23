/* Attention as two products with small matrices, a stretch of keys and one of values, and a softmax between
 * them. Heads that share keys are rows of the same product: keys are read once for all of them. */
#include "attention.h"

#include "stretch.h"

enum { SCORED = 32, ENOUGH = 4 };       /* rows at a time; items of a thread */

/* A piece's queries of one group, over the pages of its row. */
typedef struct Attending {
    const Model *model;
    const Layer *layer;
    const Scratch *scratch;
    const Piece *piece;
    int shared;             /* heads of the group */
    int rows;               /* tokens × shared */
    Cached cached;
    Inputs queries;
} Attending;

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The first token that one at this position sees. */
static int seen_from(const Layer *layer, int position)
{
    return layer->window ? larger(0, position - layer->window + 1) : 0;
}

static void read_queries(Attending *of, const Run *run, int group)
{
    const int head = of->model->head;
    of->queries = inputs_at(of->scratch->queries, of->model->form, of->rows, head);
    for (int row = 0; row < of->rows; row++) {
        const float *states = run->states + (size_t)(of->piece->first + row / of->shared) * run->joined;
        inputs_write(&of->queries, row, states + (group * of->shared + row % of->shared) * head, head);
    }
}

static Cached cached(const Run *run, const Layer *layer, const Piece *piece, int group)
{
    const Model *model = run->model;
    const size_t bytes = (size_t)model->head * (model->form == F32 ? sizeof(float) : sizeof(uint16_t));
    return (Cached){
        .keys = (const char *)layer->keys + group * bytes,
        .values = (const char *)layer->values + group * bytes,
        .pages = run->step->pages + run->step->tables[piece->row],
        .page = model->page,
        .form = model->form,
        .head = model->head,
        .token_bytes = model->groups * bytes,
    };
}

static Attending attending(const Run *run, const Layer *layer, const Scratch *scratch, const Piece *piece, int group)
{
    const int shared = run->model->heads / run->model->groups;
    Attending of = {
        .model = run->model,
        .layer = layer,
        .scratch = scratch,
        .piece = piece,
        .shared = shared,
        .rows = (piece->end - piece->first) * shared,
        .cached = cached(run, layer, piece, group),
    };
    read_queries(&of, run, group);
    return of;
}

/* Products of rows [row, end) with keys [first, …) become weights, and the sums so far are made to fit. */
static void weigh(const Attending *of, const Mix *mix, const Inputs *weights, int first, int row, int end)
{
    const Model *model = of->model;
    float *products = of->scratch->scores;
    for (; row < end; row++, products += STRETCH) {
        const int position = of->piece->position + row / of->shared;
        const int from = seen_from(of->layer, position) - first, to = position + 1 - first;
        const Seen seen = {from, to, model->scale, model->score_cap};
        mix_scale(mix, row, mix_weigh(mix, row, products, weights->padded, seen));
        inputs_write(weights, row, products, weights->padded);
    }
}

/* Some rows at a time, whose scores stay in a core's first cache. */
static void attend_stretch(const Attending *of, const Mix *mix, int first, const Stretch *stretch,
                           const Stretch *next)
{
    const Scratch *scratch = of->scratch;
    const Matrix keys = stretch_keys(scratch->keys, &of->cached, stretch, next);
    const Matrix values = stretch_values(scratch->values, &of->cached, stretch, next);
    const Inputs weights = inputs_at(scratch->weights, of->model->form, of->rows, stretch->count);
    for (int row = 0; row < of->rows; row += SCORED) {
        const int end = smaller(row + SCORED, of->rows);
        const Part scores = {
            .weight = &keys, .rows = &of->queries, .first = row, .end = end,
            .panels = keys.outputs / PANEL, .out = scratch->scores, .stride = STRETCH,
        };
        const Part sums = {
            .weight = &values, .rows = &weights, .first = row, .end = end, .panels = values.outputs / PANEL,
            .out = mix->sums + (size_t)row * mix->width, .stride = mix->width, .adds = 1,
        };
        multiply(&scores);
        weigh(of, mix, &weights, first, row, end);
        multiply(&sums);
    }
}

/* The stretch from `first` on, empty where there is none. */
static Stretch found(const Attending *of, int first, int end)
{
    return stretch_found(&of->cached, first, larger(0, smaller(STRETCH, end - first)));
}

static void attend_span(const Attending *of, const Mix *mix, int span)
{
    const int seen = seen_from(of->layer, of->piece->position) / STRETCH * STRETCH;
    const int end = smaller(piece_length(of->piece), (span + 1) * SPAN);
    mix_clear(mix);
    int first = larger(seen, span * SPAN);
    Stretch stretch = found(of, first, end);
    stretch_fetch(&of->cached, &stretch);
    while (first < end) {
        const Stretch next = found(of, first + STRETCH, end);
        attend_stretch(of, mix, first, &stretch, &next);
        stretch = next;
        first += STRETCH;
    }
}

static int first_span(const Layer *layer, const Piece *piece)
{
    return seen_from(layer, piece->position) / SPAN;
}

static void write_mixed(const Run *run, const Piece *piece, int group, const Mix *sum)
{
    const int head = run->model->head, shared = run->model->heads / run->model->groups;
    for (int row = 0; row < sum->rows; row++) {
        float *mixed = run->mixed + (size_t)(piece->first + row / shared) * run->mixed_wide;
        mix_write(sum, row, mixed + (group * shared + row % shared) * head, head);
    }
}

static void attend_all(const Run *run, const Attending *of, int group)
{
    Mix sum = of->scratch->sum, more = of->scratch->span;
    sum.rows = more.rows = of->rows;
    int span = first_span(of->layer, of->piece);
    attend_span(of, &sum, span);
    while (++span * SPAN < piece_length(of->piece)) {
        attend_span(of, &more, span);
        mix_join(&sum, &more);
    }
    write_mixed(run, of->piece, group, &sum);
}

/* All spans of a piece are there. */
static void join_spans(const Run *run, const Layer *layer, const Piece *piece)
{
    const int rows = (piece->end - piece->first) * (run->model->heads / run->model->groups);
    for (int group = 0; group < run->model->groups; group++) {
        int span = first_span(layer, piece);
        Mix sum = run_partial(run, piece->item + span, group);
        sum.rows = rows;
        while (++span < piece->items) {
            const Mix more = run_partial(run, piece->item + span, group);
            mix_join(&sum, &more);
        }
        write_mixed(run, piece, group, &sum);
    }
}

static void attend(const Run *run, const Layer *layer, const Scratch *scratch, int number, int group)
{
    const Item *item = &run->plan.item[number];
    const Piece *piece = &run->plan.piece[item->piece];
    if (item->span != ALL && item->span < first_span(layer, piece))
        return;
    const Attending of = attending(run, layer, scratch, piece, group);
    if (item->span == ALL) {
        attend_all(run, &of, group);
    } else {
        Mix mix = run_partial(run, number, group);
        mix.rows = of.rows;
        attend_span(&of, &mix, item->span);
    }
}

/* Whoever does the last part of a piece writes what is made of it. */
static void finish(const Run *run, int number, Piece *piece)
{
    if (run->plan.item[piece->item].span != ALL)
        join_spans(run, &run->model->layer[number], piece);
    for (int row = run_row(run, number, piece->first); row < run_row(run, number, piece->end); row++)
        forms_write(&run->attended, row, 0, run->mixed + (size_t)run_token(run, number, row) * run->mixed_wide,
                    run->model->heads * run->model->head);
}

static int is_needed(const Run *run, int number, const Piece *piece)
{
    return run_row(run, number, piece->first) < run_row(run, number, piece->end);
}

static void attend_part(const Run *run, int number, int item, int group, const Scratch *scratch)
{
    Piece *piece = &run->plan.piece[run->plan.item[item].piece];
    if (!is_needed(run, number, piece))
        return;
    attend(run, &run->model->layer[number], scratch, item, group);
    if (atomic_fetch_add_explicit(&piece->done, 1, memory_order_acq_rel) + 1 == piece->items * run->model->groups) {
        atomic_store_explicit(&piece->done, 0, memory_order_relaxed);
        finish(run, number, piece);
    }
}

/* The keys of all groups lie side by side in a page: where there is enough to share out, one thread reads them. */
void attention(const Run *run, int number, Team *team, Scratch *scratch)
{
    const int items = run->plan.items, groups = run->model->groups;
    const int together = items >= ENOUGH * run->model->threads ? groups : 1;
    int part;
    while ((part = team_take(team, items * groups / together)) >= 0)
        for (int i = part * together; i < (part + 1) * together; i++)
            attend_part(run, number, i / groups, i % groups, scratch);
}
