/* Any processor: nothing but C. */
#include "vectors_plain.h"

enum { FLOAT_ROWS = 2, FLOAT_PANELS = 1, INT_ROWS = 2, INT_PANELS = 1, AHEAD = 0 };

#include "blocks.h"

int multiply_ready(void)
{
    return 1;
}
