/* The state of a step in progress: the layout of its workspace. */
#ifndef RUN_H
#define RUN_H

#include "step/activations.h"
#include "step/attention_plan.h"
#include "step/online_softmax.h"
#include "step/step.h"
#include "thread_team.h"

/* Buffers of one thread, for attention, for the gated MLP and for logits. */
typedef struct Scratch {
    void *queries, *keys, *values, *weights;    /* attention: rows × head, KV_TILE × head twice, rows × KV_TILE */
    float *scores;                              /* (rows, KV_TILE) */
    OnlineSoftmax sum, span;
    float *tile, *other;                        /* (block, TILE_PANELS × PANEL): products of a tile */
} Scratch;

enum { TILE_PANELS = 8, MOST_BLOCK = 64, MOST_PRODUCTS = 3 };   /* MOST_PRODUCTS: of a phase */

typedef struct Run {
    const Model *model;
    const Step *step;
    int block, blocks;              /* rows per block, number of blocks of tokens */
    int width;                      /* head dimension, rounded up to PANEL */
    int wide, states_stride, mixed_wide;    /* row strides in floats: of x and y, states, mixed */
    int key, value;                 /* offsets of keys and values in a row of `states` */
    float *x, *y;                   /* (T, hidden): residual stream; its next addend, or normed x */
    float *states;                  /* (T, queries | keys | values) */
    float *mixed;                   /* (T, num_heads × head): attention output */
    float *partial;                 /* for each item that is a span, and each group: an OnlineSoftmax */
    Activations normed, attended, activated, last;    /* inputs of matrices; last: (num_logits, hidden) */
    float *low[MOST_PRODUCTS];      /* (T, rank): low-rank outputs of adapters, for each product of a phase */
    int low_stride;
    atomic_int *done;               /* (blocks,): finished tasks of each block in this phase */
    AttentionPlan attention_plan;
    char *scratch;
    size_t scratch_bytes;           /* per thread */
} Run;

/* Lay the run of a step out in `memory` and set *bytes to its size. With memory null, only the size is computed. */
Run run_at(const Model *model, const Step *step, void *memory, size_t *bytes);

Scratch run_scratch(const Run *run, int thread);

/* After a layer's attention, its rows are the step's tokens; in the last layer, only the tokens that it outputs.
 * run_rows: the number of rows. run_token: the token of a row. */
int run_rows(const Run *run, int layer);
int run_token(const Run *run, int layer, int row);

/* The first row of a layer whose token is at or after `token`. */
int run_row(const Run *run, int layer, int token);

/* The OnlineSoftmax of an item that is a span. */
OnlineSoftmax run_partial(const Run *run, int item, int group);

#endif
