/* Rows of a model's logits, read as floats one span at a time. */
#ifndef LOGITS_H
#define LOGITS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "panel.h"
#include "simd/bfloat.h"

enum { SPAN = 256 };

/* Row i is row where[i] of `values`, whose rows are `stride` values apart. */
typedef struct Logits {
    int32_t rows, width;
    int32_t dtype;               /* F32 or BF16 */
    int32_t threads;            /* threads to share the rows */
    int64_t stride;
    const void *values;
    const int64_t *where;       /* (rows,) */
} Logits;

/* Read SPAN floats of a row from `first` on, padded with -infinity. */
static inline void logits_read(const Logits *of, int row, int first, float *to)
{
    const int64_t place = of->where[row] * of->stride + first;
    const int count = of->width - first < SPAN ? of->width - first : SPAN;
    if (of->dtype == F32) {
        memcpy(to, (const float *)of->values + place, count * sizeof(float));
    } else {
        const uint16_t *from = (const uint16_t *)of->values + place;
        for (int i = 0; i < count; i++)
            to[i] = bfloat_read(from[i]);
    }
    for (int i = count; i < SPAN; i++)
        to[i] = -INFINITY;
}

/* The number of threads to use: each takes a row at a time. */
static inline int logits_threads(const Logits *of)
{
    return of->rows < of->threads ? of->rows : of->threads;
}

#endif
