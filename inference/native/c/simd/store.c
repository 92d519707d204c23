/* Stores floats unchanged, or rounded to bfloat16. */
#include "simd/store.h"

#include <string.h>

#include "panel.h"
#include "simd/bfloat.h"

void store(void *to, int64_t place, int dtype, const float *from, int count)
{
    if (dtype == F32) {
        memcpy((float *)to + place, from, count * sizeof(float));
        return;
    }
    bfloats_round((uint16_t *)to + place, from, count);
}
