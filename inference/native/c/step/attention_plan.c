/* Query tiles and items. If the query tiles are too few for the threads, those of few tokens are split into spans. */
#include "step/attention_plan.h"

#include "rounding.h"

enum { MOST_ROWS = 128, FEW_TOKENS = 8, ITEMS_OF_A_THREAD = 8 };

static int query_tile_tokens(const Model *model)
{
    const int shared = model->num_heads / model->num_kv_heads;
    return shared < MOST_ROWS ? MOST_ROWS / shared : 1;
}

static int is_split(const QueryTile *query_tile, const Model *model, int num_query_tiles)
{
    const int is_short = query_tile->end - query_tile->first <= FEW_TOKENS;
    return is_short && num_query_tiles * model->num_kv_heads < ITEMS_OF_A_THREAD * model->threads;
}

/* For each query tile, from the last token to the first: the tiles with the most keys take longest and start first. */
#define EACH_QUERY_TILE(query_tile, model, step)                                                                   \
    for (int row = (step)->rows - 1, size = query_tile_tokens(model); row >= 0; row--)                             \
        for (int end = (int)(step)->query_start_loc[row + 1]; end > (step)->query_start_loc[row];                  \
             end = query_tile.first)                                                                               \
            if (query_tile = query_tile_before(step, row, end, size), 1)

static QueryTile query_tile_before(const Step *step, int row, int end, int size)
{
    const int start = (int)step->query_start_loc[row], tokens = end - start;
    const int first = start + (tokens - 1) / size * size;
    const int num_computed = (int)(step->seq_lens[row] - (step->query_start_loc[row + 1] - start));
    return (QueryTile){.row = row, .first = first, .end = end, .position = num_computed + first - start};
}

AttentionPlan plan_count(const Model *model, const Step *step)
{
    AttentionPlan attention_plan = {.rows = query_tile_tokens(model) * (model->num_heads / model->num_kv_heads)};
    QueryTile query_tile;
    EACH_QUERY_TILE(query_tile, model, step) attention_plan.num_query_tiles++;
    EACH_QUERY_TILE(query_tile, model, step) {
        if (is_split(&query_tile, model, attention_plan.num_query_tiles))
            attention_plan.split += ceil_div(query_tile_length(&query_tile), SPAN);
        else
            attention_plan.items++;
    }
    attention_plan.items += attention_plan.split;
    return attention_plan;
}

static void add_spans(AttentionPlan *attention_plan, int number, int first)
{
    QueryTile *query_tile = &attention_plan->query_tile[number];
    query_tile->item = first;
    query_tile->items = ceil_div(query_tile_length(query_tile), SPAN);
    for (int span = 0; span < query_tile->items; span++)
        attention_plan->item[first + span] = (WorkItem){number, span};
}

void plan_fill(AttentionPlan *attention_plan, const Model *model, const Step *step)
{
    int number = 0, spans = 0, next_unsplit = attention_plan->split;
    QueryTile query_tile;
    EACH_QUERY_TILE(query_tile, model, step) {
        attention_plan->query_tile[number] = query_tile;
        if (is_split(&query_tile, model, attention_plan->num_query_tiles)) {
            add_spans(attention_plan, number, spans);
            spans += attention_plan->query_tile[number].items;
        } else {
            attention_plan->query_tile[number].item = next_unsplit;
            attention_plan->query_tile[number].items = 1;
            attention_plan->item[next_unsplit++] = (WorkItem){number, ALL};
        }
        number++;
    }
}
