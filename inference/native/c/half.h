/* float16: weights, and the scales of GGUF files. */
#ifndef HALF_H
#define HALF_H

#include <stdint.h>
#include <string.h>

/* For finite numbers. The exponent's bias is corrected by a product, which is exact for subnormal numbers too. */
static inline float half_read(uint16_t half)
{
    const uint32_t bits = (half & 0x7fffu) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    return half & 0x8000 ? -value : value;
}

#endif
