/* What the errors of weights weigh: by default what llama.cpp derives from the values alone; with an importance matrix
 * the importance of each input, and its values (quantize_row_*_impl in ggml/src/ggml-quants.c). */
#ifndef IMPORTANCE_H
#define IMPORTANCE_H

#include <math.h>

#include "packing/column.h"

typedef struct Importance {
    const float *inputs;            /* of a block's first input on; null: there is no importance matrix */
    float mean_squares[PANEL];      /* of the values of each row, for blocks of one group */
} Importance;

static inline Strip strip_root(Strip values)
{
    for (int i = 0; i < STRIP; i++)
        values[i] = sqrtf(values[i]);
    return values;
}

/* The sum of the squares of a group, added to `squares`. */
static inline Strip add_squares(Strip squares, const float *column)
{
    for (int k = 0; k < GROUP; k++)
        squares += column_at(column, k) * column_at(column, k);
    return squares;
}

/* A value weighs its square, or its input's importance alone. */
static inline void weigh_scale(Strip *weights, const float *column, int count, const float *inputs)
{
    for (int k = 0; k < count; k++)
        weights[k] = inputs ? strip_all(inputs[k]) : column_at(column, k) * column_at(column, k);
}

/* A value weighs its magnitude and the root mean square of the group. */
static inline void weigh_by_magnitude(Strip weights[GROUP], const float *column)
{
    const Strip mean = strip_root(add_squares((Strip){0}, column) / GROUP);
    for (int k = 0; k < GROUP; k++)
        weights[k] = mean + strip_magnitude(column_at(column, k));
}

/* A value weighs its input's importance, and the root of its square and of the mean one. */
static inline void weigh_by_importance(Strip weights[GROUP], const float *column, const float *inputs, Strip mean_squares)
{
    for (int k = 0; k < GROUP; k++) {
        const Strip value = column_at(column, k);
        weights[k] = inputs[k] * strip_root(mean_squares + value * value);
    }
}

#endif
