/* AVX2 with FMA. */
#include "vectors_avx2.h"

enum { FLOAT_ROWS = 4, FLOAT_PANELS = 1, INT_ROWS = 4, INT_PANELS = 1, AHEAD = 2048 };

#include "blocks.h"

void multiply(const Part *part)
{
    multiply_blocks(part);
}

int multiply_ready(void)
{
    return 1;
}
