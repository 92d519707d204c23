/* float16: weights, and the scales of GGUF files and of 8-bit keys and values. */
#ifndef HALF_H
#define HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define HALF_NAN 0x7e00

/* Not for infinity. The exponent's bias is corrected by a product, which is exact for subnormal numbers too. */
static inline float half_read(uint16_t half)
{
#ifdef __F16C__
    return _cvtsh_ss(half);
#else
    const uint32_t bits = (half & 0x7fffu) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= (half & 0x7fff) < HALF_NAN ? 0x1p112f : NAN;
    return half & 0x8000 ? -value : value;
#endif
}

/* Round a number that is not negative to nearest, ties to even; the largest float16 for those beyond it; NaN stays NaN.
 * For subnormal float16, a sum with 0.5 leaves as many bits as they have. */
static inline uint16_t half_round(float value)
{
    const float shifted = value + 0.5f;
    uint32_t bits, of_shifted;
    memcpy(&bits, &value, sizeof bits);
    memcpy(&of_shifted, &shifted, sizeof of_shifted);
    if (value < 0x1p-14f)
        return (uint16_t)(of_shifted - 0x3f000000u);
    if (value >= 65504)
        return 0x7bff;
    if (value != value)
        return HALF_NAN;
    return (uint16_t)((bits - 0x38000000u + 0xfff + (bits >> 13 & 1)) >> 13);
}

#endif
