/* A weight matrix packed into panels, the one layout that all kernels read, for one row or a thousand.
 *
 * A panel has PANEL outputs. In a panel, the values that one instruction multiplies are adjacent. The matrix is padded
 * with zeros to whole panels of outputs and whole groups of inputs.
 */
#ifndef MATRIX_H
#define MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "panel.h"

/* A weight (outputs, inputs). A range of whole panels is a Matrix too. */
typedef struct Matrix {
    int32_t dtype;
    int32_t outputs;
    int32_t inputs;
    int32_t padded;         /* inputs, rounded up to GROUP */
    const void *values;
    const void *scales;     /* of integers; else null */
    const float *bias;      /* (outputs,), or null; `multiply` does not add it */
} Matrix;

size_t matrix_bytes(int dtype, int outputs, int inputs);          /* bytes of `values` */
size_t matrix_scale_bytes(int dtype, int outputs, int inputs);    /* bytes of `scales` */

/* Pack rows [first, end) of a weight. importance: of the inputs, `padded` floats, for the formats of GGUF that weights
 * are quantized to, or null. `rows` points to row `first`; a row has `inputs` values of `dtype`, F32 or BF16,
 * or F16 if the matrix is F16 too, and the next one begins `stride` values later. first is a multiple of PANEL; so is
 * end, unless it is `outputs`. */
void matrix_pack(const Matrix *to, const void *rows, int dtype, int64_t stride, int first, int end,
                 const float *importance, int threads);

/* The reverse: write the dequantized rows [first, end), rounded to the dtype. */
void matrix_unpack(const Matrix *matrix, void *rows, int dtype, int64_t stride, int first, int end, int threads);

/* Write the dequantized row `output` of the matrix, (inputs,), for example to look up an embedding. */
void matrix_row(const Matrix *matrix, int output, float *row);

#endif
