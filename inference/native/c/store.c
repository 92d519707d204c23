/* Stores floats unchanged, or rounded to bfloat16. */
#include "store.h"

#include <string.h>

#include "bfloat.h"
#include "panel.h"

void store(void *to, int64_t place, int dtype, const float *from, int count)
{
    if (dtype == F32) {
        memcpy((float *)to + place, from, count * sizeof(float));
        return;
    }
    bfloats_round((uint16_t *)to + place, from, count);
}
