/* The next token of rows of logits: the largest, or the one that a draw chooses. */
#ifndef DRAW_H
#define DRAW_H

#include "logits.h"

/* What is told instead of a winner: all tokens are gone, some logit is no number, or several tokens are so near to
 * each other that the last bits of the noise decide. */
enum { NONE_LEFT = -1, NO_NUMBERS = -2, TOO_NEAR = -3 };

/* best[i], ids[i] of each row: its largest logit, and the first token that has it. A row that holds what is no
 * number, or +infinity, has NaN. */
void largest(const Logits *logits, float *best, int64_t *ids);

/* ids[i] of each row: the token whose logit / heat + noise is largest, where states[i], mixed, is its key. Tokens below floors[i], once divided, are
 * out; floors may be null. */
void winners(const Logits *logits, const uint64_t *states, const float *heats, const float *floors, int64_t *ids);

#endif
