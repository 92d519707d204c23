/* A stretch of the tokens that a row holds: their keys and values, wherever their pages are, as two matrices
 * that rows of queries and of weights are multiplied with. */
#ifndef STRETCH_H
#define STRETCH_H

#include <stddef.h>

#include "matrix.h"

enum { STRETCH = 128 };      /* tokens */

/* One head's keys and values in the pages of a row. */
typedef struct Cached {
    const char *keys, *values;
    const int64_t *pages;
    int page;               /* tokens of one */
    int form, head;
    size_t token_bytes;     /* from one token to the next in a page */
} Cached;

typedef struct Stretch {
    int count;                  /* of tokens, at most STRETCH */
    ptrdiff_t places[STRETCH];  /* bytes from the first key, or value, to each; NONE behind the last */
} Stretch;

enum { NONE = -1 };

size_t stretch_bytes(int form, int head);    /* of either matrix */

/* Where tokens [first, first + count) of the row stand. */
Stretch stretch_found(const Cached *of, int first, int count);

/* Begin to fetch it from memory, which is slow to find what lies in pages. */
void stretch_fetch(const Cached *of, const Stretch *stretch);

/* Its keys as outputs: a row of queries becomes its scores. Those of the next are fetched meanwhile, some at a
 * time: more than a core can wait for at once would have it wait for them all. */
Matrix stretch_keys(void *memory, const Cached *of, const Stretch *stretch, const Stretch *next);

/* Its values, their tokens as inputs: a row of weights becomes the weighted sum of values. The same of the next. */
Matrix stretch_values(void *memory, const Cached *of, const Stretch *stretch, const Stretch *next);

#endif
