/* Log probabilities of one token a row of logits, and their gradients with respect to the logits. */
#ifndef LOGPROBS_H
#define LOGPROBS_H

#include "sampling/logits.h"

/* logprobs[i]: of token ids[i] in row i, whose largest logit is largest[i]. gradients: (rows, width) in the dtype of the
 * logits, or null. Both are NaN for a row whose largest logit is NaN or -infinity. */
void token_logprobs(const Logits *logits, const float *largest, const int64_t *ids, float *logprobs, void *gradients);

#endif
