/* The next token of rows of logits: the largest, or the few of which a draw chooses one. */
#ifndef DRAW_H
#define DRAW_H

#include "logits.h"

enum { FEW = 64 };      /* tokens that are told of a row, at most */

/* What a count of them says below 0: some logits are no numbers, or more than FEW are too near to each other. */
enum { NO_NUMBERS = -1, TOO_MANY = -2 };

/* best[i], ids[i] of each row: its largest logit, and the first token that has it. A row that holds what is no
 * number, or +infinity, has NaN. */
void largest(const Logits *logits, float *best, int64_t *ids);

/* A draw is the largest of all logits / heat + noise. Which of a row's tokens it may be, whatever the last bits
 * of that noise are: ids[i * FEW ...] in order, counts[i] of them. Tokens below floors[i], once divided, are out;
 * floors may be null. */
void contenders(const Logits *logits, const uint64_t *keys, const float *heats, const float *floors,
                int64_t *ids, int32_t *counts);

#endif
