/* The layers of a model, each in five phases between which the threads of the team wait for each other. */
#ifndef LAYER_H
#define LAYER_H

#include "run.h"

/* Layer `number` for all rows, of which `normed` holds what queries, keys and values are made of. Leaves there
 * what the next layer takes; the last layer leaves in `last` what the head takes. */
void layer_run(const Run *run, int number, Team *team, Scratch *scratch);

/* Put a token of the residual stream through a norm, or none, into a row of what the matrices behind it take. */
void row_enter(const Run *run, int token, const float *norm, const Forms *to, int row);

#endif
