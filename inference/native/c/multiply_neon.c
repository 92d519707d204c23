/* `multiply` for ARM processors with NEON, with products of bytes and of bfloat16 or without. */
#include "vectors_neon.h"

#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
enum { FLOAT_ROWS = 6 };
#else
enum { FLOAT_ROWS = 4 };    /* leaves registers for widened weights */
#endif
enum { FLOAT_PANELS = 1, INT_ROWS = 4, INT_PANELS = 1, PREFETCH_BYTES = 2048, PREFETCH_LOCALITY = 3 };

#include "blocks.h"

void multiply(const GemmTask *task)
{
    multiply_blocks(task);
}

int multiply_ready(void)
{
    return 1;
}
