/* How the attention of a step is divided into work items, the same way for all layers.
 *
 * The tokens of a row are divided into query tiles, whose queries read the keys together. The keys that a query tile
 * attends to are divided into spans, counted from the start of the sequence; the partial results of spans are always
 * merged in order. A token's result therefore depends only on its position: not on the number of threads, and not on
 * the other rows of the step.
 */
#ifndef ATTENTION_PLAN_H
#define ATTENTION_PLAN_H

#include <stdatomic.h>

#include "step/step.h"

enum { SPAN = 256 };    /* tokens; a multiple of KV_TILE */

typedef struct QueryTile {
    int row;
    int first, end;         /* range of the step's tokens */
    int position;           /* of the first token, in its sequence */
    int item, items;        /* its first item, number of items: one per span, or one for all */
    atomic_int done;        /* finished tasks in this layer, of items × groups */
} QueryTile;

typedef struct WorkItem {
    int query_tile;
    int span;               /* or ALL */
} WorkItem;

enum { ALL = -1 };

typedef struct AttentionPlan {
    int rows;               /* per query tile at most: tokens × query heads of a group */
    int num_query_tiles, items;
    int split;              /* number of items that are spans; these come first */
    QueryTile *query_tile;
    WorkItem *item;
} AttentionPlan;

/* The sizes of the plan; its tables are null. */
AttentionPlan plan_count(const Model *model, const Step *step);

/* Fill the tables. */
void plan_fill(AttentionPlan *attention_plan, const Model *model, const Step *step);

/* The number of tokens of the sequence up to the last token of the query tile: the end of the keys that it reads. */
static inline int query_tile_length(const QueryTile *query_tile)
{
    return query_tile->position + query_tile->end - query_tile->first;
}

#endif
