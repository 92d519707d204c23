/* A decoder layer in five phases. The threads of the team wait for each other between phases. */
#ifndef LAYER_H
#define LAYER_H

#include "step/run.h"

/* Run layer `number` for all rows. Reads its input from `normed` and writes the input of the next layer there; the
 * last layer writes the input of the head to `last`. */
void layer_run(const Run *run, int number, Team *team, Scratch *scratch);

/* Apply the norm, if it is not null, to a token of the residual stream, and write the result to a row of `to`. */
void row_enter(const Run *run, int token, const float *norm, const Activations *to, int row);

#endif
