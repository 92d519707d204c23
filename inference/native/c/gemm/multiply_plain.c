/* `multiply` for any processor, in plain C. */
#include "simd/vectors_plain.h"

enum { FLOAT_ROWS = 2, FLOAT_PANELS = 1, INT_ROWS = 2, INT_PANELS = 1, PREFETCH_BYTES = 0, PREFETCH_LOCALITY = 3 };

#include "gemm/blocks.h"

void multiply(const GemmTask *task)
{
    multiply_blocks(task);
}

int multiply_ready(void)
{
    return 1;
}
