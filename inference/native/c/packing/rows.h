/* Source rows of a weight, and the transposition of groups of their inputs: the outputs of a panel become adjacent. */
#ifndef ROWS_H
#define ROWS_H

#include "packing/quantize.h"

typedef struct Rows {
    const void *values;
    int dtype;              /* F32, BF16 or F16 */
    int64_t stride;         /* values from one row to the next */
    int count, inputs;      /* PANEL rows at most */
} Rows;

/* Write GROUP inputs from `input` on, in the layout of a panel whose kind is the dtype of the rows. Missing rows and
 * inputs are zeros. */
void rows_turn(void *to, const Rows *rows, int input);

/* The same as floats; not of F16. */
void rows_tile(Tile tile, const Rows *rows, int input);

/* The largest absolute value of a row. */
float rows_largest(const Rows *rows, int row);

#endif
