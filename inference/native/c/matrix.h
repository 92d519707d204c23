/* A weight matrix in panels, the one form that all kernels read: a copy of it serves one row and a thousand.
 *
 * Its outputs stand in panels of PANEL; in a panel the values that one instruction multiplies stand together.
 * Behind the last output and the last input there are zeros.
 */
#ifndef MATRIX_H
#define MATRIX_H

#include <stddef.h>
#include <stdint.h>

enum { PANEL = 16, GROUP = 32 };   /* outputs of a panel; inputs that share a scale, and inputs are padded to */

enum Kind {
    F32,    /* panels of [inputs][PANEL] floats */
    BF16,   /* [inputs / 2][PANEL][2] */
    INT8,   /* [inputs / 4][PANEL][4]; a float for each output as its scale */
    INT4,   /* groups of GROUP inputs, two to a byte; [groups][PANEL] bfloat16 as scales */
};

/* w (outputs, inputs). Part of a matrix is a matrix too: whole panels of it. */
typedef struct Matrix {
    int32_t kind;
    int32_t outputs;
    int32_t inputs;
    int32_t padded;         /* inputs, rounded up to GROUP */
    const void *values;
    const void *scales;     /* INT8, INT4; else null */
    const float *bias;      /* (outputs,), or null: for whoever stores what `multiply` gives */
} Matrix;

size_t matrix_bytes(int kind, int outputs, int inputs);          /* of values */
size_t matrix_scale_bytes(int kind, int outputs, int inputs);    /* of scales */

/* Write rows [first, end) of a weight; `rows` is where row `first` begins, of `inputs` values of F32 or BF16 by
 * `form`, `stride` of them from the next. first is a multiple of PANEL, as end is if it is not the last. */
void matrix_pack(const Matrix *to, const void *rows, int form, int64_t stride, int first, int end, int threads);

/* The other way: rows [first, end) as they are computed with, rounded to the form. */
void matrix_unpack(const Matrix *of, void *rows, int form, int64_t stride, int first, int end, int threads);

/* Row `output` of the matrix as it is computed with, (inputs,): to look up an embedding. */
void matrix_row(const Matrix *of, int output, float *row);

#endif
