/* Activations in each kind that the matrices which they are multiplied with need: usually a single one. */
#ifndef FORMS_H
#define FORMS_H

#include "multiply.h"

enum { KINDS = INT4 + 1 };

typedef struct Activations {
    unsigned kinds;             /* bit mask of kind_of */
    Inputs of[KINDS];
} Activations;

/* The bit of the matrix's kind. */
static inline unsigned kind_of(const Matrix *matrix)
{
    return 1u << matrix->dtype;
}

size_t activations_bytes(unsigned kinds, int rows, int inputs);
Activations activations_at(void *memory, unsigned kinds, int rows, int inputs);

/* Write inputs [first, first + count) of a row in all kinds. first is a multiple of GROUP; so is count, except at the
 * end of the row. */
void activations_write(const Activations *to, int row, int first, const float *from, int count);

#endif
