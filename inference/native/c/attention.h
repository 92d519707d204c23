/* Attention over the pages of each row. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "run.h"

/* A phase of the team: of the queries in `states`, over keys and values that are in the pages, what the matrix
 * `output` of a layer is given. Does not wait for the others at its end. */
void attention(const Run *run, int layer, Team *team, Scratch *scratch);

#endif
