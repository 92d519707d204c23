/* The same rows in each of the kinds that the matrices they go to are in: mostly in one. */
#ifndef FORMS_H
#define FORMS_H

#include "multiply.h"

enum { KINDS = INT4 + 1 };

typedef struct Forms {
    unsigned kinds;             /* a bit for each */
    Inputs of[KINDS];
} Forms;

/* A bit for the kind of a matrix. */
static inline unsigned kind_of(const Matrix *matrix)
{
    return 1u << matrix->kind;
}

size_t forms_bytes(unsigned kinds, int rows, int inputs);
Forms forms_at(void *memory, unsigned kinds, int rows, int inputs);

/* Inputs [first, first + count) of a row; first is a multiple of GROUP, and so is count but for a row's end. */
void forms_write(const Forms *to, int row, int first, const float *from, int count);

#endif
