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
    int end;                /* of the tokens that the item reads */
    KvTile kv_tile, after;  /* the first tile that is not read yet; that of the thread's next item */
} Attending;

/* Tokens [first, end) of a row. */
typedef struct Range {
    int first, end;
} Range;

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

/* The keys that the queries of a query tile read in a span. The first ones may be invisible: tiles begin at multiples of
 * KV_TILE. */
static Range range_of(const Layer *layer, const QueryTile *query_tile, int span)
{
    const int visible = visible_from(layer, query_tile->position) / KV_TILE * KV_TILE;
    const int length = query_tile_length(query_tile);
    if (span == ALL)
        return (Range){visible, length};
    return (Range){larger(visible, span * SPAN), smaller(length, (span + 1) * SPAN)};
}

static void read_queries(Attending *ctx, const Run *run, int group)
{
    const int head_dim = ctx->model->head_dim;
    ctx->queries = inputs_at(ctx->scratch->queries, ctx->model->dtype, ctx->rows, head_dim);
    for (int row = 0; row < ctx->rows; row++) {
        const float *states = run->states + (size_t)(ctx->query_tile->first + row / ctx->shared) * run->states_stride;
        inputs_write(&ctx->queries, row, states + (group * ctx->shared + row % ctx->shared) * head_dim, head_dim);
    }
}

static Cached cached(const Run *run, const Layer *layer, const QueryTile *query_tile, int group)
{
    const Model *model = run->model;
    const size_t bytes = kv_head_bytes(model->kv_dtype, model->head_dim);
    return (Cached){
        .keys = layer->keys,
        .values = layer->values,
        .pages = run->step->pages + run->step->page_table[layer->group * run->step->rows + query_tile->row],
        .page = model->page,
        .kv_dtype = model->kv_dtype,
        .dtype = model->dtype,
        .head_dim = model->head_dim,
        .head_bytes = bytes,
        .token_bytes = model->num_kv_heads * bytes,
        .head = group * bytes,
    };
}

/* The tile that starts at `first`; empty at or behind `end`. */
static KvTile kv_tile_at(const Cached *kv, int first, int end)
{
    return kv_tile_find(kv, first, larger(0, smaller(KV_TILE, end - first)));
}

/* A work item and a group: number item × groups + group. */
typedef struct Place {
    const WorkItem *item;
    const QueryTile *query_tile;
    int group;
} Place;

static Place place_of(const Run *run, int number)
{
    const int groups = run->model->num_kv_heads;
    const WorkItem *item = &run->attention_plan.item[number / groups];
    return (Place){item, &run->attention_plan.query_tile[item->query_tile], number % groups};
}

/* The first tile that a place reads; empty if there is no place: for a negative number. */
static KvTile first_tile(const Run *run, const Layer *layer, int number)
{
    if (number < 0)
        return (KvTile){0};
    const Place place = place_of(run, number);
    const Cached kv = cached(run, layer, place.query_tile, place.group);
    const Range range = range_of(layer, place.query_tile, place.item->span);
    return kv_tile_at(&kv, range.first, range.end);
}

static Attending attending(const Run *run, const Layer *layer, const Scratch *scratch, const Place *place)
{
    const QueryTile *query_tile = place->query_tile;
    const int shared = run->model->num_heads / run->model->num_kv_heads;
    const Range range = range_of(layer, query_tile, place->item->span);
    Attending ctx = {
        .model = run->model,
        .layer = layer,
        .scratch = scratch,
        .query_tile = query_tile,
        .shared = shared,
        .rows = (query_tile->end - query_tile->first) * shared,
        .cached = cached(run, layer, query_tile, place->group),
        .end = range.end,
    };
    ctx.kv_tile = kv_tile_at(&ctx.cached, range.first, range.end);
    read_queries(&ctx, run, place->group);
    return ctx;
}

/* Turn the products of rows [row, end) with the keys from position `first` on into softmax weights, and rescale the
 * sums so far. */
static void weigh(const Attending *ctx, const OnlineSoftmax *softmax, const Inputs *weights, int first, int row, int end)
{
    const Model *model = ctx->model;
    float *products = ctx->scratch->scores;
    for (; row < end; row++, products += KV_TILE) {
        const int position = ctx->query_tile->position + row / ctx->shared;
        const int from = visible_from(ctx->layer, position) - first, to = position + 1 - first;
        const ScoreMask mask = {from, to, model->scale, model->attn_logit_softcap};
        softmax_scale(softmax, row, softmax_weigh(softmax, row, products, weights->padded, mask));
        inputs_write(weights, row, products, weights->padded);
    }
}

/* Takes SCORED rows at a time: their scores stay in the L1 cache. */
static void attend_kv_tile(const Attending *ctx, const OnlineSoftmax *softmax, int first, const KvTile *kv_tile,
                           const KvTile *next)
{
    const Scratch *scratch = ctx->scratch;
    const Matrix keys = kv_tile_keys(scratch->keys, &ctx->cached, kv_tile, next);
    const Matrix values = kv_tile_values(scratch->values, &ctx->cached, kv_tile, next);
    const Inputs weights = inputs_at(scratch->weights, ctx->model->dtype, ctx->rows, kv_tile->count);
    for (int row = 0; row < ctx->rows; row += SCORED) {
        const int end = smaller(row + SCORED, ctx->rows);
        const GemmTask scores = {
            .weight = &keys, .rows = &ctx->queries, .first = row, .end = end,
            .panels = keys.outputs / PANEL, .out = scratch->scores, .stride = KV_TILE,
        };
        const GemmTask sums = {
            .weight = &values, .rows = &weights, .first = row, .end = end, .panels = values.outputs / PANEL,
            .out = softmax->sums + (size_t)row * softmax->width, .stride = softmax->width, .adds = 1,
        };
        multiply(&scores);
        weigh(ctx, softmax, &weights, first, row, end);
        multiply(&sums);
    }
}

static void attend_span(Attending *ctx, const OnlineSoftmax *softmax, int span)
{
    const Range range = range_of(ctx->layer, ctx->query_tile, span);
    softmax_clear(softmax);
    for (int first = range.first; first < range.end; first += KV_TILE) {
        const int next = first + KV_TILE;
        const KvTile kv_tile = ctx->kv_tile;
        ctx->kv_tile = next < ctx->end ? kv_tile_at(&ctx->cached, next, ctx->end) : ctx->after;
        attend_kv_tile(ctx, softmax, first, &kv_tile, &ctx->kv_tile);
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

static void attend_all(const Run *run, Attending *ctx, int group)
{
    OnlineSoftmax sum = ctx->scratch->sum, more = ctx->scratch->span;
    sum.rows = more.rows = ctx->rows;
    int span = first_span(ctx->layer, ctx->query_tile);
    attend_span(ctx, &sum, span);
    while (++span * SPAN < query_tile_length(ctx->query_tile)) {
        attend_span(ctx, &more, span);
        softmax_merge(&sum, &more);
    }
    write_mixed(run, ctx->query_tile, group, &sum);
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

/* number, next: of the place and of the one that the thread probably takes next, or -1; see place_of. */
static void attend(const Run *run, const Layer *layer, const Scratch *scratch, int number, int next, int is_fetched)
{
    const Place place = place_of(run, number);
    Attending ctx = attending(run, layer, scratch, &place);
    ctx.after = first_tile(run, layer, next);
    if (!is_fetched)
        kv_tile_fetch(&ctx.cached, &ctx.kv_tile);
    if (place.item->span == ALL) {
        attend_all(run, &ctx, place.group);
    } else {
        OnlineSoftmax softmax = run_partial(run, number / run->model->num_kv_heads, place.group);
        softmax.rows = ctx.rows;
        attend_span(&ctx, &softmax, place.item->span);
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

static int is_visible(const Layer *layer, const Place *place)
{
    return place->item->span == ALL || place->item->span >= first_span(layer, place->query_tile);
}

static void attend_task(const Run *run, int layer, int number, int next, int is_fetched, const Scratch *scratch)
{
    const int groups = run->model->num_kv_heads;
    const Place place = place_of(run, number);
    QueryTile *query_tile = &run->attention_plan.query_tile[place.item->query_tile];
    if (!is_needed(run, layer, query_tile))
        return;
    if (is_visible(&run->model->layer[layer], &place))
        attend(run, &run->model->layer[layer], scratch, number, next, is_fetched);
    if (atomic_fetch_add_explicit(&query_tile->done, 1, memory_order_acq_rel) + 1 == query_tile->items * groups) {
        atomic_store_explicit(&query_tile->done, 0, memory_order_relaxed);
        finish(run, layer, query_tile);
    }
}

/* The keys of all groups are adjacent in a page. If there are enough items for all threads, one thread computes all
 * groups of an item, so that the page is read once. */
void attention(const Run *run, int layer, Team *team, Scratch *scratch)
{
    const int items = run->attention_plan.items, groups = run->model->num_kv_heads;
    const int together = items >= ENOUGH * run->model->threads ? groups : 1, num_tasks = items * groups / together;
    int task, fetched = -1;
    while ((task = team_take(team, num_tasks)) >= 0) {
        const int after = team_after(team, task, num_tasks), end = (task + 1) * together;
        for (int number = task * together; number < end; number++) {
            const int next = number + 1 < end ? number + 1 : after < 0 ? -1 : after * together;
            attend_task(run, layer, number, next, number == fetched, scratch);
            fetched = next;
        }
    }
}
