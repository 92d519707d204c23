/* A stretch of the tokens that a row holds: their keys and values, wherever their pages are, as two matrices
 * that rows of queries and of weights are multiplied with. */
#ifndef STRETCH_H
#define STRETCH_H

#include "matrix.h"

enum { STRETCH = 64 };      /* tokens */

/* One head's keys or values in the pages of a row. */
typedef struct Cached {
    const char *data;
    const int64_t *pages;
    int page;               /* tokens of one */
    int form, head;
    size_t token_bytes;     /* from one token to the next in a page */
} Cached;

size_t stretch_bytes(int form, int head);    /* of either matrix */

/* Tokens [first, first + count), of at most STRETCH, as outputs: a row of queries becomes its scores. */
Matrix stretch_keys(void *memory, const Cached *keys, int first, int count);

/* The same as inputs: a row of weights becomes the weighted sum of values. */
Matrix stretch_values(void *memory, const Cached *values, int first, int count);

#endif
