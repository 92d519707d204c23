/* Any processor: nothing but C. */
#include "vectors_plain.h"

enum { FLOAT_ROWS = 2, FLOAT_PANELS = 1, INT_ROWS = 2, INT_PANELS = 1, AHEAD = 0 };

#include "blocks.h"

void multiply(const Matrix *weight, const Inputs *x, int first, int end, int panel, int panels, float *out,
              ptrdiff_t stride)
{
    multiply_blocks(weight, x, first, end, panel, panels, out, stride);
}

int multiply_ready(void)
{
    return 1;
}
