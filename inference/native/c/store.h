/* Floats into memory that is in one form or the other: the pages, and the logits. */
#ifndef STORE_H
#define STORE_H

#include <stdint.h>

/* to[place, place + count) = from, of floats or bfloat16 by `form`. */
void store(void *to, int64_t place, int form, const float *from, int count);

#endif
