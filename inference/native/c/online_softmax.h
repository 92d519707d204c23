/* Online softmax: for rows of queries, the sum of values weighted by the exponentials of their scores so far. A new
 * largest score rescales the sums. */
#ifndef MIX_H
#define MIX_H

#include <stddef.h>

typedef struct Mix {
    int rows, width;        /* width: values per row, a multiple of PANEL */
    float *largest;         /* (rows,): the largest score */
    float *total;           /* (rows,): the sum of the weights */
    float *sums;            /* (rows, width): the weighted sums of values */
} Mix;

size_t mix_bytes(int rows, int width);
Mix mix_at(void *memory, int rows, int width);      /* memory: mix_bytes bytes, 64-byte aligned */

/* Reset to no scores. */
void mix_clear(const Mix *mix);

/* The visible scores of a stretch, and how products become scores. */
typedef struct ScoreMask {
    int from, to;           /* visible range; the row does not attend to the other tokens */
    float scale, cap;       /* score = scale × product; then cap × tanh(score / cap), unless cap is 0 */
} ScoreMask;

/* Turn products (count,) into weights in place, 0 for invisible tokens; count is a multiple of LANES. Updates `largest`
 * and `total`. Returns the factor by which the caller must scale the sums so far. */
float mix_weigh(const Mix *mix, int row, float *products, int count, ScoreMask mask);

/* sums[row] *= factor. */
void mix_scale(const Mix *mix, int row, float factor);

/* Merge `more` into `mix`. */
void mix_join(const Mix *mix, const Mix *more);

/* After the last score: to (count,) = sums[row] / total[row]. */
void mix_write(const Mix *mix, int row, float *to, int count);

#endif
