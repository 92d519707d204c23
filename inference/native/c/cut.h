/* Where rows of logits are cut: by top-k, then top-p, then min-p, as inference/engine/warpers.py has them. */
#ifndef CUT_H
#define CUT_H

#include <stddef.h>

#include "logits.h"

/* By row what it is divided by, how many tokens are kept, which probability these are to hold, and which share of
 * the largest one's each must have. 0, 1 and 0 cut nothing. */
typedef struct Cuts {
    const float *heats;
    const int32_t *top_k;
    const float *top_p, *min_p;
} Cuts;

size_t cut_bytes(const Logits *logits);     /* of memory */

/* floors[i]: the least logit / heat that is kept in row i. Anything where the row holds what is no number. */
void cut(const Logits *logits, const Cuts *cuts, float *floors, void *memory);

#endif
