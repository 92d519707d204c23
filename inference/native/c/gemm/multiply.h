/* Rows × matrix, the one inner loop of a model. Each CPU level has its own (multiply_*.c). */
#ifndef MULTIPLY_H
#define MULTIPLY_H

#include "packing/matrix.h"

/* Rows (rows, inputs) in the format that a matrix is multiplied with: floats, bfloat16, or 8-bit integers with a scale
 * for each GROUP of them. */
typedef struct Inputs {
    int32_t dtype;      /* F32, BF16 or INT8 */
    int32_t rows;
    int32_t padded;
    void *values;
    float *scales;      /* (rows, padded / GROUP) */
    int32_t *sums;      /* (rows, padded / GROUP, 2): of the integers of each half of a group, for unsigned weights */
} Inputs;

/* The dtype of the Inputs of a matrix. Weights of float16, and those of bfloat16 where the CPU level has no products of
 * bfloat16, are widened in registers, and activations stay floats. */
static const int INPUT_DTYPE[] = {
    [F32] = F32,
#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    [BF16] = BF16,
#else
    [BF16] = F32,
#endif
    [F16] = F32,
    [INT8] = INT8,
    [INT4] = INT8,
    [Q8_0] = INT8,
    [Q4_0] = INT8,
    [Q4_1] = INT8,
    [Q5_0] = INT8,
    [Q5_1] = INT8,
    [Q2_K] = INT8,
    [Q3_K] = INT8,
    [Q4_K] = INT8,
    [Q5_K] = INT8,
    [Q6_K] = INT8,
    [IQ4_NL] = INT8,
    [IQ4_XS] = INT8,
    [MXFP4] = INT8,
};
static const int INPUT_BYTES[] = {[F32] = 4, [BF16] = 2, [INT8] = 1};     /* of a value of Inputs */

/* Whether the system lets this process run `multiply`. Must be called once before it: AMX needs a permission. */
int multiply_ready(void);

/* Inputs of matrices of `dtype`. memory: inputs_bytes bytes, 64-byte aligned. */
size_t inputs_bytes(int dtype, int rows, int inputs);
Inputs inputs_at(void *memory, int dtype, int rows, int inputs);
void inputs_write(const Inputs *to, int row, const float *from, int inputs);
void inputs_convert(const Inputs *to, int row, const void *from, int dtype, int inputs);  /* from F32 or BF16 */

/* Write inputs [first, first + count) of a row, and zeros up to the next multiple of GROUP. first is a multiple too. */
void inputs_write_part(const Inputs *to, int row, int first, const float *from, int count);

/* A task of a product: rows [first, end) × panels [panel, panels). */
typedef struct GemmTask {
    const Matrix *weight;
    const Inputs *rows;
    int first, end, panel, panels;
    float *out;             /* of the first row and panel; its rows have room for whole panels */
    ptrdiff_t stride;       /* floats from one row of out to the next */
    int adds;               /* add to `out` instead of replacing it; not for integers */
    const void *next;       /* the weights of the next task, to prefetch meanwhile; or null */
} GemmTask;

/* out[(row - first) * stride + n] = the product of the row and output PANEL * panel + n, without the bias. The order of
 * additions is the same for any number of rows. */
void multiply(const GemmTask *task);

/* Where the weights of a panel begin. */
static inline const char *panel_at(const Matrix *weight, int panel)
{
    return (const char *)weight->values + panel * matrix_bytes(weight->dtype, PANEL, weight->inputs);
}

/* y (rows, outputs) = x wᵀ + bias, with `threads` threads. x (rows, inputs) and y are of `dtype`, F32 or BF16.
 * memory: linear_bytes bytes, 64-byte aligned. */
size_t linear_bytes(const Matrix *weight, int rows);
void linear(const Matrix *weight, const void *x, void *y, int dtype, int rows, void *memory, int threads);

#endif
