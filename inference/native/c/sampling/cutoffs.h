/* Cutoffs of top-k, then top-p, then min-p for rows of logits, as defined in inference/engine/sampling/warpers.py. */
#ifndef CUTOFFS_H
#define CUTOFFS_H

#include <stddef.h>

#include "sampling/logits.h"

/* The sampling parameters of each row, (rows,) each. top_k: tokens to keep; 0 disables it. top_p: the probability mass
 * to keep; 1 disables it. min_p: the least probability relative to the largest; 0 disables it. */
typedef struct CutoffParams {
    const float *temperatures;
    const int32_t *top_k;
    const float *top_p, *min_p;
} CutoffParams;

size_t cutoffs_bytes(const Logits *logits);     /* bytes of workspace */

/* cutoffs[i]: the least logit / temperature that row i keeps. Undefined if the row has NaN or +infinity. */
void cutoffs_compute(const Logits *logits, const CutoffParams *params, float *cutoffs, void *memory);

#endif
