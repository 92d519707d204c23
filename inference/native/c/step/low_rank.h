/* What a low-rank pair adds to the outputs of a linear layer that other code computes: y += (x aᵀ) bᵀ.
 *
 * x, y, a and b are bfloat16, in rows; the low-rank outputs and the sums are floats. For a few rows, whose time is that
 * of reading a and b: the calling thread computes alone. A row's result is the same bits whatever the other rows are.
 */
#ifndef LOW_RANK_H
#define LOW_RANK_H

#include <stdint.h>

/* low (rows, rank) = x aᵀ. a: (rank, inputs). A row of x begins `stride` values behind the one before. */
void low_rank_project(const uint16_t *x, int64_t stride, const uint16_t *a, float *low, int rows, int inputs, int rank);

/* y += low b. b: (rank, outputs). A row of y begins `stride` values behind the one before. */
void low_rank_add(const float *low, const uint16_t *b, uint16_t *y, int64_t stride, int rows, int outputs, int rank);

#endif
