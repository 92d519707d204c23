/* `multiply` for ARM processors with NEON, with products of bytes and of bfloat16 or without. */
#include "simd/vectors_neon.h"

#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define ROW_PAIRS   /* rows are multiplied in pairs: blocks_of_row_pairs.h */
#endif

/* Chosen by counted instructions: with more rows, registers are stored and loaded again. */
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
