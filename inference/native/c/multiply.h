/* Rows times a matrix: the one inner loop of a model. Each level of processors has its own (multiply_*.c). */
#ifndef MULTIPLY_H
#define MULTIPLY_H

#include "matrix.h"

/* Rows (rows, inputs) in the form that a kind of matrix is multiplied with: floats, bfloat16, or 8-bit integers
 * with a scale for each GROUP of them. */
typedef struct Inputs {
    int32_t kind;
    int32_t rows;
    int32_t padded;
    void *values;
    float *scales;      /* (rows, padded / GROUP) */
    int32_t *sums;      /* (rows, padded / GROUP): what a group's products of unsigned weights begin with */
} Inputs;

/* Whether the system lets this process run `multiply`; asked once, before it. */
int multiply_ready(void);

size_t inputs_bytes(int kind, int rows, int inputs);
Inputs inputs_at(void *memory, int kind, int rows, int inputs);       /* memory: 64-byte aligned */
void inputs_write(const Inputs *to, int row, const float *from, int inputs);
void inputs_convert(const Inputs *to, int row, const void *from, int form, int inputs);  /* from F32 or BF16 */

/* Inputs [first, first + count) of a row, and zeros up to the next multiple of GROUP, of which first is one. */
void inputs_write_part(const Inputs *to, int row, int first, const float *from, int count);

/* A part of a product: rows [first, end) by panels [panel, panels). */
typedef struct Part {
    const Matrix *weight;
    const Inputs *rows;
    int first, end, panel, panels;
    float *out;             /* of the first row and panel; its rows have place for whole panels */
    ptrdiff_t stride;       /* floats from one row of out to the next */
    int adds;               /* to what out holds, instead of replacing it; F32 and BF16 alone */
    const void *next;       /* weights of the same kind that are wanted next, to be fetched meanwhile; or null */
} Part;

/* out[(row - first) * stride + n] = what output PANEL * panel + n makes of a row; without the bias. The order of
 * additions is the same for any number of rows. */
void multiply(const Part *part);

/* Where the weights of a panel begin. */
static inline const char *panel_at(const Matrix *weight, int panel)
{
    return (const char *)weight->values + panel * matrix_bytes(weight->kind, PANEL, weight->inputs);
}

/* y (rows, outputs) = x wᵀ + bias by `threads` threads; x and y are F32 or BF16 by `form`. memory: of
 * linear_bytes, aligned. */
size_t linear_bytes(const Matrix *weight, int rows);
void linear(const Matrix *weight, const void *x, void *y, int form, int rows, void *memory, int threads);

#endif
