/* Online softmax: for rows of queries, the sum of values weighted by the exponentials of their scores so far. A new
 * largest score rescales the sums. */
#ifndef ONLINE_SOFTMAX_H
#define ONLINE_SOFTMAX_H

#include <stddef.h>

typedef struct OnlineSoftmax {
    int rows, width;        /* width: values per row, a multiple of PANEL */
    float *largest;         /* (rows,): the largest score */
    float *total;           /* (rows,): the sum of the weights */
    float *sums;            /* (rows, width): the weighted sums of values */
} OnlineSoftmax;

size_t softmax_bytes(int rows, int width);
OnlineSoftmax softmax_at(void *memory, int rows, int width);      /* memory: softmax_bytes bytes, 64-byte aligned */

/* Reset to no scores. */
void softmax_clear(const OnlineSoftmax *softmax);

/* The visible scores of a KV tile, and how products become scores. */
typedef struct ScoreMask {
    int from, to;           /* visible range; the row does not attend to the other tokens */
    float scale, cap;       /* score = scale × product; then cap × tanh(score / cap), unless cap is 0 */
} ScoreMask;

/* Turn products (count,) into weights in place, 0 for invisible tokens; count is a multiple of LANES. Updates `largest`
 * and `total`. Returns the factor by which the caller must scale the sums so far. */
float softmax_weigh(const OnlineSoftmax *softmax, int row, float *products, int count, ScoreMask mask);

/* sums[row] *= factor. */
void softmax_scale(const OnlineSoftmax *softmax, int row, float factor);

/* Merge `more` into `softmax`. */
void softmax_merge(const OnlineSoftmax *softmax, const OnlineSoftmax *more);

/* After the last score: to (count,) = sums[row] / total[row]. */
void softmax_write(const OnlineSoftmax *softmax, int row, float *to, int count);

#endif
