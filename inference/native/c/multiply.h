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

/* out[(row - first) * stride + n] = what output PANEL * panel + n makes of a row, for rows [first, end) and
 * panels [panel, panels); without the bias. The order of additions is the same for any number of rows. */
void multiply(const Matrix *weight, const Inputs *rows, int first, int end, int panel, int panels,
              float *out, ptrdiff_t stride);

/* y (rows, outputs) = x wᵀ + bias by `threads` threads; x and y are F32 or BF16 by `form`. memory: of
 * linear_bytes, aligned. */
size_t linear_bytes(const Matrix *weight, int rows);
void linear(const Matrix *weight, const void *x, void *y, int form, int rows, void *memory, int threads);

#endif
