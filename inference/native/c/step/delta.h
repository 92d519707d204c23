/* What adapters add to the products of a step. The low-rank outputs of all tokens with adapters are computed first, as
 * a phase of their own; then each tile of a product adds its part. */
#ifndef DELTA_H
#define DELTA_H

#include "step/run.h"

/* A product whose outputs adapters change: number `which` of LayerDeltas, or HEAD_DELTA. */
typedef struct DeltaOf {
    int which, layer;
    int rows;               /* of the product; see delta_rows */
} DeltaOf;

enum { HEAD_DELTA = DELTAS };

/* A phase of the team: the low-rank outputs of `inputs` for product number `place` and the `count` - 1 after it, whose
 * numbers of LayerDeltas follow each other. */
void deltas_project(const Run *run, Team *team, const Activations *inputs, DeltaOf target, int count);

/* Change rows [first, end) × panels [panel, panels) of the product at place `place` of its phase. `out`: as in
 * GemmTask. */
void deltas_add(const Run *run, DeltaOf target, int place, const GemmTask *task);

#endif
