/* Integer division and multiples, rounded up; for counts that are not negative. */
#ifndef ROUNDING_H
#define ROUNDING_H

#include <stddef.h>

static inline int ceil_div(int count, int size)
{
    return (count + size - 1) / size;
}

/* The least multiple of `to` that is at least `count`. */
static inline size_t round_up(size_t count, size_t to)
{
    return (count + to - 1) / to * to;
}

#endif
