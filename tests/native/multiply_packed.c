/* Multiplies the packed matrices and rows on stdin, for tests of processors that are emulated (test_neon.py). */
#include <stdio.h>
#include <stdlib.h>

#include "gemm/multiply.h"

enum { ALIGNED = 64 };

static void *new_memory(size_t size)
{
    void *memory = aligned_alloc(ALIGNED, (size / ALIGNED + 1) * ALIGNED);
    if (!memory)
        abort();
    return memory;
}

static void *read_bytes(size_t size)
{
    void *memory = new_memory(size);
    if (fread(memory, 1, size, stdin) != size)
        abort();
    return memory;
}

int main(void)
{
    int32_t head[5];    /* dtype, outputs, inputs, padded, rows; the matrix's values and scales, and the rows, follow */
    while (fread(head, sizeof head, 1, stdin)) {
        Matrix matrix = {.dtype = head[0], .outputs = head[1], .inputs = head[2], .padded = head[3]};
        const int rows = head[4];
        matrix.values = read_bytes(matrix_bytes(matrix.dtype, matrix.outputs, matrix.inputs));
        matrix.scales = read_bytes(matrix_scale_bytes(matrix.dtype, matrix.outputs, matrix.inputs));
        const float *x = read_bytes((size_t)rows * matrix.inputs * sizeof *x);
        float *y = new_memory((size_t)rows * matrix.outputs * sizeof *y);
        linear(&matrix, x, y, F32, rows, new_memory(linear_bytes(&matrix, rows)), 1);
        fwrite(y, sizeof *y, (size_t)rows * matrix.outputs, stdout);
    }
    return 0;
}
