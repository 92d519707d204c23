/* Activations in each dtype that the matrices which they are multiplied with need: usually a single one. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include "gemm/multiply.h"

enum { KINDS = INT8 + 1 };

typedef struct Activations {
    unsigned kinds;             /* bit mask of kind_of */
    Inputs inputs[KINDS];       /* by their dtype */
} Activations;

/* The bit of the inputs of a matrix of this dtype. */
static inline unsigned kind_of(int dtype)
{
    return 1u << INPUT_DTYPE[dtype];
}

/* The activations in the form that the matrix is multiplied with. */
static inline const Inputs *inputs_for(const Activations *activations, const Matrix *matrix)
{
    return &activations->inputs[INPUT_DTYPE[matrix->dtype]];
}

size_t activations_bytes(unsigned kinds, int rows, int inputs);
Activations activations_at(void *memory, unsigned kinds, int rows, int inputs);

/* Write inputs [first, first + count) of a row in all kinds. first is a multiple of GROUP; so is count, except at the
 * end of the row. */
void activations_write(const Activations *to, int row, int first, const float *from, int count);

#endif
