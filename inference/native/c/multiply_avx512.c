/* AVX-512 with products of bfloat16 and of bytes. */
#include "vectors_avx512.h"

enum { FLOAT_ROWS = 6, FLOAT_PANELS = 4, INT_ROWS = 3, INT_PANELS = 4, AHEAD = 2048 };

#include "blocks.h"

void multiply(const Part *part)
{
    multiply_blocks(part);
}

int multiply_ready(void)
{
    return 1;
}
