/* The scales of a group of GGUF's formats, as vectors of a panel's outputs. Included by blocks.h. */
#ifndef GGUF_SCALES_H
#define GGUF_SCALES_H

#include "gguf_layout.h"

typedef uint8_t Bytes __attribute__((vector_size(PANEL)));

static inline Bytes bytes_load(const uint8_t from[PANEL])
{
    Bytes bytes;
    __builtin_memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* Six-bit integers as six_bits_at in gguf.c finds them, times their factor. */
static inline Floats six_bit_scales(const ScalesQ4K *of, int i)
{
    const Bytes bytes = i < 4 ? bytes_load(of->six_bits[i]) & 63
                              : (bytes_load(of->six_bits[i + 4]) & 15) | bytes_load(of->six_bits[i - 4]) >> 6 << 4;
    return floats_times(floats_of_bytes((const uint8_t *)&bytes), floats_of_halves(of->scale));
}

static inline Floats six_bit_minima(const ScalesQ4K *of, int i)
{
    const Bytes bytes = i < 4 ? bytes_load(of->six_bits[i + 4]) & 63
                              : bytes_load(of->six_bits[i + 4]) >> 4 | bytes_load(of->six_bits[i]) >> 6 << 4;
    return floats_times(floats_of_bytes((const uint8_t *)&bytes), floats_of_halves(of->min));
}

static inline Floats half_scales(const ScalesQ6K *of, int i)
{
    const Bytes bytes = bytes_load((const uint8_t *)of->halves[i]) ^ 0x80;     /* unsigned: 128 more */
    const Floats unsigned_scales = floats_of_bytes((const uint8_t *)&bytes);
    const Floats integers = floats_plus_product(floats_all(-128), unsigned_scales, floats_all(1));
    return floats_times(integers, floats_of_halves(of->scale));
}

#endif
