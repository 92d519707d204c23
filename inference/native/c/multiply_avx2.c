/* AVX2 with FMA. */
#include "vectors_avx2.h"

enum { FLOAT_ROWS = 4, FLOAT_PANELS = 1, INT_ROWS = 4, INT_PANELS = 1, AHEAD = 2048 };

#include "blocks.h"

int multiply_ready(void)
{
    return 1;
}
