/* Vectors of a panel's width in plain C: loops that the compiler may vectorize. */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>

#include "bfloat.h"
#include "panel.h"

#define LANES for (int n = 0; n < PANEL; n++)

typedef struct { float of[PANEL]; } Floats;
typedef struct { int32_t of[PANEL]; } Ints;
typedef struct { uint32_t of[PANEL]; } Words;

static inline Floats floats_all(float value)
{
    Floats all;
    LANES all.of[n] = value;
    return all;
}

static inline Floats floats_load(const float *from)
{
    Floats loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

/* Store the first `count` lanes. */
static inline void floats_store_some(float *to, Floats from, int count)
{
    for (int n = 0; n < count; n++)
        to[n] = from.of[n];
}

static inline Floats floats_of_bfloats(const uint16_t *from)
{
    Floats read;
    LANES read.of[n] = bfloat_read(from[n]);
    return read;
}

static inline Floats floats_of_ints(Ints ints)
{
    Floats floats;
    LANES floats.of[n] = (float)ints.of[n];
    return floats;
}

static inline Floats floats_times(Floats a, Floats b)
{
    LANES a.of[n] *= b.of[n];
    return a;
}

static inline Floats floats_plus_product(Floats sum, Floats a, Floats b)
{
    LANES sum.of[n] += a.of[n] * b.of[n];
    return sum;
}

static inline Ints ints_all(int32_t value)
{
    Ints all;
    LANES all.of[n] = value;
    return all;
}

static inline Words words_load(const void *from)
{
    Words loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

static inline Words words_all(const void *from)
{
    Words all;
    uint32_t word;
    memcpy(&word, from, sizeof word);
    LANES all.of[n] = word;
    return all;
}

static inline Words words_low_halves(Words both)
{
    LANES both.of[n] &= 0x0f0f0f0f;
    return both;
}

static inline Words words_high_halves(Words both)
{
    LANES both.of[n] = both.of[n] >> 4 & 0x0f0f0f0f;
    return both;
}

/* sum + weight × input in each lane, for floats. */
static inline Floats floats_plus(Floats sum, Words weights, Words inputs)
{
    Floats a, b;
    memcpy(&a, &weights, sizeof a);
    memcpy(&b, &inputs, sizeof b);
    return floats_plus_product(sum, a, b);
}

/* sum + two products of bfloat16 in each lane. */
static inline Floats pairs_plus(Floats sum, Words weights, Words inputs)
{
    LANES {
        const uint32_t w = weights.of[n], x = inputs.of[n];
        sum.of[n] += bfloat_read((uint16_t)w) * bfloat_read((uint16_t)x);
        sum.of[n] += bfloat_read((uint16_t)(w >> 16)) * bfloat_read((uint16_t)(x >> 16));
    }
    return sum;
}

/* sum + four products of an unsigned weight byte and a signed input byte in each lane. */
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    for (int byte = 0; byte < 32; byte += 8)
        LANES sum.of[n] += (uint8_t)(weights.of[n] >> byte) * (int8_t)(uint8_t)(inputs.of[n] >> byte);
    return sum;
}

#endif
