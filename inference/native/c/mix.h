/* Sums of values weighted by a softmax that is not yet complete, for rows of queries: what has been seen so far
 * is kept together with the largest score, and is made smaller when a larger one comes. */
#ifndef MIX_H
#define MIX_H

#include <stddef.h>

typedef struct Mix {
    int rows, width;        /* width: values of a row, a multiple of PANEL */
    float *largest;         /* (rows,): score */
    float *total;           /* (rows,): of weights */
    float *sums;            /* (rows, width) */
} Mix;

size_t mix_bytes(int rows, int width);
Mix mix_at(void *memory, int rows, int width);      /* 64-byte aligned */

/* Nothing has been seen. */
void mix_clear(const Mix *mix);

/* Which of the scores of a stretch count, and how. */
typedef struct Seen {
    int from, to;           /* those in [from, to); the others are of tokens that the row does not see */
    float scale, cap;       /* a score is scale × product, brought below the cap if that is not 0 */
} Seen;

/* Turn products (count,), a multiple of LANES, into weights, 0 for what is not seen. Returns what the sums so
 * far are to be multiplied with. */
float mix_weigh(const Mix *mix, int row, float *products, int count, Seen seen);

/* sums of a row = sums × factor. */
void mix_scale(const Mix *mix, int row, float factor);

/* What `more` has seen, `mix` has seen too. */
void mix_join(const Mix *mix, const Mix *more);

/* The softmax is complete: to (count,) = sums of a row / total. */
void mix_write(const Mix *mix, int row, float *to, int count);

#endif
