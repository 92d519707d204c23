/* The next token for rows of logits: greedy, or sampled with the Gumbel-max trick. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "sampling/logits.h"

/* Returned in place of a token id: no token is left; a logit is NaN or +infinity; or several tokens are so close that
 * the last bits of the noise decide. */
enum { NO_TOKEN = -1, NAN_LOGITS = -2, AMBIGUOUS = -3 };

/* best[i], ids[i]: the largest logit of row i, and the first token that has it. best[i] is NaN if the row has NaN or
 * +infinity. */
void argmax(const Logits *logits, float *best, int64_t *ids);

/* ids[i]: the token of row i with the largest logit / temperature + noise. noise_mix(states[i]) is the key of the
 * noise. Tokens with logit / temperature < cutoffs[i] are excluded; cutoffs may be null. */
void gumbel_argmax(const Logits *logits, const uint64_t *states, const float *temperatures, const float *cutoffs,
                   int64_t *ids);

#endif
