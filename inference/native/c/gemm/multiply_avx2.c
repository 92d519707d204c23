/* `multiply` for AVX2 with FMA. */
#include "simd/vectors_avx2.h"

enum { FLOAT_ROWS = 4, FLOAT_PANELS = 1, INT_ROWS = 4, INT_PANELS = 1, PREFETCH_BYTES = 2048, PREFETCH_LOCALITY = 3 };

#include "gemm/blocks.h"

void multiply(const GemmTask *task)
{
    multiply_blocks(task);
}

int multiply_ready(void)
{
    return 1;
}
