/* How the attention of a step is shared out, the same for all layers.
 *
 * The tokens of a row are cut into pieces: queries that go over keys together. What a piece sees is cut into
 * spans, counted from the start of its row, whose sums are joined in their order. So what a token gets depends
 * on its position alone, not on who computes how much of it, nor on what else is in the step.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdatomic.h>

#include "step.h"

enum { SPAN = 256 };    /* tokens; a multiple of STRETCH */

typedef struct Piece {
    int row;
    int first, end;         /* of the step's tokens */
    int position;           /* of the first in its row */
    int item, items;        /* its first, and how many: one for each span, or one for all */
    atomic_int done;        /* parts of it, in this layer: items × groups */
} Piece;

typedef struct Item {
    int piece;
    int span;               /* or ALL */
} Item;

enum { ALL = -1 };

typedef struct Plan {
    int rows;               /* of queries in a piece at most: tokens × heads that share keys */
    int pieces, items;
    int split;              /* items that are spans: they come first */
    Piece *piece;
    Item *item;
} Plan;

/* How much there is of all; the tables are null. */
Plan plan_counted(const Model *model, const Step *step);

/* Fill the tables. */
void plan_fill(Plan *plan, const Model *model, const Step *step);

/* The end of what the last token of a piece sees. */
static inline int piece_length(const Piece *piece)
{
    return piece->position + piece->end - piece->first;
}

#endif
