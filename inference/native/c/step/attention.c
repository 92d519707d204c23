/* Attention as two products with small matrices, a tile of keys and one of values, with an online softmax between
 * them. The query heads that share a KV head are rows of the same product, so each key is read once for all of them. */
#include "step/attention.h"

#include "step/kv_block.h"
#include "step/kv_tile.h"

enum { SCORED = 32, ENOUGH = 4 };       /* rows scored at a time; items per thread that are enough */

/* The queries of a query tile and group, and the KV cache of its row. */
typedef struct Attending {
    const Model *model;
    const Layer *layer;
    const Scratch *scratch;
    const QueryTile *query_tile;
    int shared;             /* query heads of the group */
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

/* The first position that a query at `position` attends to. */
static int visible_from(const Layer *layer, int position)
{
    return layer->window ? larger(0, position - layer->window + 1) : 0;
}

static void read_queries(Attending *of, const Run *run, int group)
{
    const int head_dim = of->model->head_dim;
    of->queries = inputs_at(of->scratch->queries, of->model->dtype, of->rows, head_dim);
    for (int row = 0; row < of->rows; row++) {
        const float *states = run->states + (size_t)(of->query_tile->first + row / of->shared) * run->states_stride;
        inputs_write(&of->queries, row, states + (group * of->shared + row % of->shared) * head_dim, head_dim);
    }
}

static Cached cached(const Run *run, const Layer *layer, const QueryTile *query_tile, int group)
{
    const Model *model = run->model;
    const size_t bytes = kv_head_bytes(model->kv_dtype, model->head_dim);
    return (Cached){
        .keys = (const char *)layer->keys + group * bytes,
        .values = (const char *)layer->values + group * bytes,
        .pages = run->step->pages + run->step->page_table[layer->group * run->step->rows + query_tile->row],
        .page = model->page,
        .kv_dtype = model->kv_dtype,
        .dtype = model->dtype,
        .head_dim = model->head_dim,
        .head_bytes = bytes,
        .token_bytes = model->num_kv_heads * bytes,
    };
}

static Attending attending(const Run *run, const Layer *layer, const Scratch *scratch, const QueryTile *query_tile,
                           int group)
{
    const int shared = run->model->num_heads / run->model->num_kv_heads;
    Attending of = {
        .model = run->model,
        .layer = layer,
        .scratch = scratch,
        .query_tile = query_tile,
        .shared = shared,
        .rows = (query_tile->end - query_tile->first) * shared,
        .cached = cached(run, layer, query_tile, group),
    };
    read_queries(&of, run, group);
    return of;
}

/* Turn the products of rows [row, end) with the keys from position `first` on into softmax weights, and rescale the
 * sums so far. */
static void weigh(const Attending *of, const OnlineSoftmax *softmax, const Inputs *weights, int first, int row, int end)
{
    const Model *model = of->model;
    float *products = of->scratch->scores;
    for (; row < end; row++, products += KV_TILE) {
        const int position = of->query_tile->position + row / of->shared;
        const int from = visible_from(of->layer, position) - first, to = position + 1 - first;
        const ScoreMask mask = {from, to, model->scale, model->attn_logit_softcap};
        softmax_scale(softmax, row, softmax_weigh(softmax, row, products, weights->padded, mask));
        inputs_write(weights, row, products, weights->padded);
    }
}

/* Takes SCORED rows at a time: their scores stay in the L1 cache. */
static void attend_kv_tile(const Attending *of, const OnlineSoftmax *softmax, int first, const KvTile *kv_tile,
                           const KvTile *next)
{
    const Scratch *scratch = of->scratch;
    const Matrix keys = kv_tile_keys(scratch->keys, &of->cached, kv_tile, next);
    const Matrix values = kv_tile_values(scratch->values, &of->cached, kv_tile, next);
    const Inputs weights = inputs_at(scratch->weights, of->model->dtype, of->rows, kv_tile->count);
    for (int row = 0; row < of->rows; row += SCORED) {
        const int end = smaller(row + SCORED, of->rows);
        const GemmTask scores = {
            .weight = &keys, .rows = &of->queries, .first = row, .end = end,
            .panels = keys.outputs / PANEL, .out = scratch->scores, .stride = KV_TILE,
        };
        const GemmTask sums = {
            .weight = &values, .rows = &weights, .first = row, .end = end, .panels = values.outputs / PANEL,
            .out = softmax->sums + (size_t)row * softmax->width, .stride = softmax->width, .adds = 1,
        };
        multiply(&scores);
        weigh(of, softmax, &weights, first, row, end);
        multiply(&sums);
    }
}

/* The tile that starts at `first`; empty at or behind `end`. */
static KvTile kv_tile_at(const Attending *of, int first, int end)
{
    return kv_tile_find(&of->cached, first, larger(0, smaller(KV_TILE, end - first)));
}

static void attend_span(const Attending *of, const OnlineSoftmax *softmax, int span)
{
    const int visible = visible_from(of->layer, of->query_tile->position) / KV_TILE * KV_TILE;
    const int end = smaller(query_tile_length(of->query_tile), (span + 1) * SPAN);
    softmax_clear(softmax);
    int first = larger(visible, span * SPAN);
    KvTile kv_tile = kv_tile_at(of, first, end);
    kv_tile_fetch(&of->cached, &kv_tile);
    while (first < end) {
        const KvTile next = kv_tile_at(of, first + KV_TILE, end);
        attend_kv_tile(of, softmax, first, &kv_tile, &next);
        kv_tile = next;
        first += KV_TILE;
    }
}

static int first_span(const Layer *layer, const QueryTile *query_tile)
{
    return visible_from(layer, query_tile->position) / SPAN;
}

static void write_mixed(const Run *run, const QueryTile *query_tile, int group, const OnlineSoftmax *sum)
{
    const int head_dim = run->model->head_dim, shared = run->model->num_heads / run->model->num_kv_heads;
    for (int row = 0; row < sum->rows; row++) {
        float *mixed = run->mixed + (size_t)(query_tile->first + row / shared) * run->mixed_wide;
        softmax_write(sum, row, mixed + (group * shared + row % shared) * head_dim, head_dim);
    }
}

static void attend_all(const Run *run, const Attending *of, int group)
{
    OnlineSoftmax sum = of->scratch->sum, more = of->scratch->span;
    sum.rows = more.rows = of->rows;
    int span = first_span(of->layer, of->query_tile);
    attend_span(of, &sum, span);
    while (++span * SPAN < query_tile_length(of->query_tile)) {
        attend_span(of, &more, span);
        softmax_merge(&sum, &more);
    }
    write_mixed(run, of->query_tile, group, &sum);
}

/* Merge the spans of a query tile, once all are computed. */
static void join_spans(const Run *run, const Layer *layer, const QueryTile *query_tile)
{
    const int rows = (query_tile->end - query_tile->first) * (run->model->num_heads / run->model->num_kv_heads);
    for (int group = 0; group < run->model->num_kv_heads; group++) {
        int span = first_span(layer, query_tile);
        OnlineSoftmax sum = run_partial(run, query_tile->item + span, group);
        sum.rows = rows;
        while (++span < query_tile->items) {
            const OnlineSoftmax more = run_partial(run, query_tile->item + span, group);
            softmax_merge(&sum, &more);
        }
        write_mixed(run, query_tile, group, &sum);
    }
}

static void attend(const Run *run, const Layer *layer, const Scratch *scratch, int number, int group)
{
    const WorkItem *item = &run->attention_plan.item[number];
    const QueryTile *query_tile = &run->attention_plan.query_tile[item->query_tile];
    if (item->span != ALL && item->span < first_span(layer, query_tile))
        return;
    const Attending of = attending(run, layer, scratch, query_tile, group);
    if (item->span == ALL) {
        attend_all(run, &of, group);
    } else {
        OnlineSoftmax softmax = run_partial(run, number, group);
        softmax.rows = of.rows;
        attend_span(&of, &softmax, item->span);
    }
}

/* Write the query tile's result. Called by the thread that does its last task. */
static void finish(const Run *run, int number, QueryTile *query_tile)
{
    if (run->attention_plan.item[query_tile->item].span != ALL)
        join_spans(run, &run->model->layer[number], query_tile);
    for (int row = run_row(run, number, query_tile->first); row < run_row(run, number, query_tile->end); row++)
        activations_write(&run->attended, row, 0, run->mixed + (size_t)run_token(run, number, row) * run->mixed_wide,
                    run->model->num_heads * run->model->head_dim);
}

static int is_needed(const Run *run, int number, const QueryTile *query_tile)
{
    return run_row(run, number, query_tile->first) < run_row(run, number, query_tile->end);
}

static void attend_task(const Run *run, int number, int item, int group, const Scratch *scratch)
{
    QueryTile *query_tile = &run->attention_plan.query_tile[run->attention_plan.item[item].query_tile];
    if (!is_needed(run, number, query_tile))
        return;
    attend(run, &run->model->layer[number], scratch, item, group);
    const int tasks = query_tile->items * run->model->num_kv_heads;
    if (atomic_fetch_add_explicit(&query_tile->done, 1, memory_order_acq_rel) + 1 == tasks) {
        atomic_store_explicit(&query_tile->done, 0, memory_order_relaxed);
        finish(run, number, query_tile);
    }
}

/* The keys of all groups are adjacent in a page. If there are enough items for all threads, one thread computes all
 * groups of an item, so that the page is read once. */
void attention(const Run *run, int number, Team *team, Scratch *scratch)
{
    const int items = run->attention_plan.items, groups = run->model->num_kv_heads;
    const int together = items >= ENOUGH * run->model->threads ? groups : 1;
    int task;
    while ((task = team_take(team, items * groups / together)) >= 0)
        for (int i = task * together; i < (task + 1) * together; i++)
            attend_task(run, number, i / groups, i % groups, scratch);
}
