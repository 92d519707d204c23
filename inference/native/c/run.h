/* A step while it is computed: what stands where in its memory. */
#ifndef RUN_H
#define RUN_H

#include "forms.h"
#include "mix.h"
#include "plan.h"
#include "step.h"
#include "team.h"

/* What one thread needs for itself, in turn for attention, for gates and for logits. */
typedef struct Scratch {
    void *queries, *keys, *values, *weights;    /* of attention: rows × head, STRETCH × head twice, rows × STRETCH */
    float *scores;                              /* (rows, STRETCH) */
    Mix sum, span;
    float *tile, *other;                        /* (block, TILE_PANELS × PANEL) */
} Scratch;

enum { TILE_PANELS = 8, MOST_BLOCK = 64 };

typedef struct Run {
    const Model *model;
    const Step *step;
    int block, blocks;              /* rows that are multiplied at a time, and into how many all are cut */
    int width;                      /* of a head, a multiple of PANEL */
    int wide, joined, mixed_wide;   /* floats from one row to the next: of x and y, of `states`, of `mixed` */
    int key, value;                 /* where they begin in a row of `states`, behind the queries */
    float *x, *y;                   /* (T, hidden): the residual stream, and what is to be added to it */
    float *states;                  /* (T, queries | keys | values) */
    float *mixed;                   /* (T, heads × head): what attention gives */
    float *partial;                 /* a Mix for each span and group */
    Forms normed, attended, activated, last;    /* what matrices are given; last: (wanted, hidden) */
    atomic_int *done;               /* (blocks,): parts of each in this phase */
    Plan plan;
    char *scratch;
    size_t scratch_bytes;           /* of one thread */
} Run;

/* The run of a step in its memory, or in none, to learn how much that is. */
Run run_at(const Model *model, const Step *step, void *memory, size_t *bytes);

Scratch run_scratch(const Run *run, int thread);

/* Behind the attention of a layer, its rows are the step's tokens, and the last one's those that are wanted. */
int run_rows(const Run *run, int layer);
int run_token(const Run *run, int layer, int row);

/* The first row of a layer whose token is not before this one. */
int run_row(const Run *run, int layer, int token);

/* The Mix of an item of the plan that is a span. */
Mix run_partial(const Run *run, int item, int group);

#endif
