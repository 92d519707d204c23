/* Attention over the paged KV cache. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "step/run.h"

/* A phase of the team: attention of the queries in `states` over the keys and values in the pages. Writes `attended`,
 * the input of the layer's output matrix. Does not wait for the other threads at its end. */
void attention(const Run *run, int layer, Team *team, Scratch *scratch);

#endif
