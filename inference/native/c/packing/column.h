/* A column of a tile: the inputs of a group, for the outputs of a strip. */
#ifndef COLUMN_H
#define COLUMN_H

#include "panel.h"
#include "simd/strip.h"

static inline Strip column_at(const float *column, int k)
{
    return strip_load(column + k * PANEL);
}

/* The values with the largest magnitudes of the first `count` inputs, with their signs. */
static inline Strip column_largest(const float *column, int count)
{
    Strip largest = {0};
    for (int k = 0; k < count; k++) {
        const Strip values = column_at(column, k);
        largest = strip_select(strip_magnitude(values) > strip_magnitude(largest), values, largest);
    }
    return largest;
}

#endif
