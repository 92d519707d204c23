/* Stores floats in the model's dtype: in the KV pages, and in the logits. */
#ifndef STORE_H
#define STORE_H

#include <stdint.h>

/* to[place, place + count) = from. `to` is of `dtype`, F32 or BF16. */
void store(void *to, int64_t place, int dtype, const float *from, int count);

#endif
