/* The sizes of packed matrices. pack.c fills them, unpack.c reads them back. */
#include "packing/matrix.h"

#include "packing/gguf_layout.h"
#include "rounding.h"

size_t matrix_bytes(int dtype, int outputs, int inputs)
{
    return round_up(outputs, PANEL) * round_up(inputs, GROUP) * BITS[dtype] / 8;
}

size_t matrix_scale_bytes(int dtype, int outputs, int inputs)
{
    const size_t panels = ceil_div(outputs, PANEL), groups = ceil_div(inputs, GROUP);
    switch (dtype) {
    case INT8: return panels * PANEL * sizeof(float);
    case INT4: return panels * groups * PANEL * sizeof(uint16_t);
    case F32: case BF16: case F16: return 0;
    default: return panels * (groups / BLOCK_GROUPS[dtype]) * BLOCK_SCALE_BYTES[dtype];
    }
}
