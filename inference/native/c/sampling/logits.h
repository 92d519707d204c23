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
static inline void logits_read(const Logits *logits, int row, int first, float *to)
{
    const int64_t place = logits->where[row] * logits->stride + first;
    const int count = logits->width - first < SPAN ? logits->width - first : SPAN;
    if (logits->dtype == F32) {
        memcpy(to, (const float *)logits->values + place, count * sizeof(float));
    } else {
        const uint16_t *from = (const uint16_t *)logits->values + place;
        for (int i = 0; i < count; i++)
            to[i] = bfloat_read(from[i]);
    }
    for (int i = count; i < SPAN; i++)
        to[i] = -INFINITY;
}

/* The number of threads to use: each takes a row at a time. */
static inline int logits_threads(const Logits *logits)
{
    return logits->rows < logits->threads ? logits->rows : logits->threads;
}

#endif
