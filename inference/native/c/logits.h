/* Rows of logits as a model gives them, read a span at a time as floats. */
#ifndef LOGITS_H
#define LOGITS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bfloat.h"
#include "matrix.h"

enum { SPAN = 256 };

/* Row i of `rows` is row where[i] of the values, which begins `stride` of them behind the one before it. */
typedef struct Logits {
    int32_t rows, width;
    int32_t form;               /* F32 or BF16 */
    int32_t threads;            /* that may share the rows */
    int64_t stride;
    const void *values;
    const int64_t *where;       /* (rows,) */
} Logits;

/* SPAN floats of a row from `first` on; behind the last -infinity. */
static inline void logits_read(const Logits *of, int row, int first, float *to)
{
    const int64_t place = of->where[row] * of->stride + first;
    const int count = of->width - first < SPAN ? of->width - first : SPAN;
    if (of->form == F32) {
        memcpy(to, (const float *)of->values + place, count * sizeof(float));
    } else {
        const uint16_t *from = (const uint16_t *)of->values + place;
        for (int i = 0; i < count; i++)
            to[i] = bfloat_read(from[i]);
    }
    for (int i = count; i < SPAN; i++)
        to[i] = -INFINITY;
}

/* One takes a row at a time. */
static inline int logits_threads(const Logits *of)
{
    return of->rows < of->threads ? of->rows : of->threads;
}

#endif
