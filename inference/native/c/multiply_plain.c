/* Any processor: nothing but C. */
#include "vectors_plain.h"

enum { FLOAT_ROWS = 2, FLOAT_PANELS = 1, INT_ROWS = 2, INT_PANELS = 1, AHEAD = 0 };

#include "blocks.h"

void multiply(const Part *part)
{
    multiply_blocks(part);
}

int multiply_ready(void)
{
    return 1;
}
