/* Rows of a weight as they come, and groups of their inputs turned: the outputs of a panel side by side. */
#ifndef ROWS_H
#define ROWS_H

#include "quantise.h"

typedef struct Rows {
    const void *values;
    int form;               /* of a value: F32 or BF16 */
    int64_t stride;         /* values from one row to the next */
    int count, inputs;      /* PANEL rows at most */
} Rows;

size_t form_bytes(int form);

/* GROUP inputs from `input` on, as a panel has them that is of the rows' own form. Where there is no row or no
 * input, zeros. */
void rows_turn(void *to, const Rows *rows, int input);

/* The same, as floats. */
void rows_tile(Tile tile, const Rows *rows, int input);

/* The largest value of a row, without its sign. */
float rows_largest(const Rows *rows, int row);

#endif
