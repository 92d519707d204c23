/* Vectors of a panel's width in the compiler's vector types (lanes.h), which it turns into whatever registers the
 * processor has. */
#ifndef VECTORS_H
#define VECTORS_H

#include "panel.h"
#include "simd/lanes.h"

typedef Lanes Floats;
typedef IntLanes Ints;
typedef WordLanes Words;

static inline Floats floats_all(float value)
{
    return lanes_all(value);
}

static inline Floats floats_load(const float *from)
{
    return lanes_load(from);
}

/* Store the first `count` lanes. */
static inline void floats_store_some(float *to, Floats from, int count)
{
    memcpy(to, &from, (count < PANEL ? count : PANEL) * sizeof(float));
}

static inline Floats floats_of_bfloats(const uint16_t *from)
{
    HalfLanes halves;
    memcpy(&halves, from, sizeof halves);
    return (Floats)(__builtin_convertvector(halves, Words) << 16);
}

/* From float16, see half.h. */
static inline Floats floats_of_halves(const uint16_t *from)
{
    HalfLanes halves;
    memcpy(&halves, from, sizeof halves);
    const Words words = __builtin_convertvector(halves, Words);
    const Words magnitudes = (Words)((Floats)((words & 0x7fff) << 13) * 0x1p112f);
    return (Floats)(magnitudes | (words & 0x8000) << 16);
}

static inline Floats floats_of_bytes(const uint8_t *from)
{
    typedef uint8_t ByteLanes __attribute__((vector_size(PANEL)));
    ByteLanes bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, Floats);
}

static inline Floats floats_of_ints(Ints ints)
{
    return __builtin_convertvector(ints, Floats);
}

static inline Floats floats_times(Floats a, Floats b)
{
    return a * b;
}

static inline Floats floats_plus_product(Floats sum, Floats a, Floats b)
{
    return sum + a * b;
}

static inline Ints ints_all(int32_t value)
{
    return value - (Ints){0};
}

static inline Words words_load(const void *from)
{
    Words loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

static inline Words words_all(const void *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word - (Words){0};
}

static inline Words words_none(void)
{
    return (Words){0};
}

/* The bits of `mask` of each byte, `shift` bits up. */
static inline Words words_bits(Words words, int shift, int mask)
{
    return words >> shift & mask * 0x01010101u;
}

/* Low bits, and high ones `up` bits up. */
static inline Words words_join(Words lows, Words highs, int up)
{
    return lows | highs << up;
}

/* The entries of a table by codes of four bits. */
static inline Words words_entries(const uint8_t table[16], Words codes)
{
    uint8_t bytes[sizeof codes];
    memcpy(bytes, &codes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = table[bytes[i]];
    memcpy(&codes, bytes, sizeof codes);
    return codes;
}

/* sum + weight × input in each lane, for floats. */
static inline Floats floats_plus(Floats sum, Words weights, Words inputs)
{
    return sum + (Floats)weights * (Floats)inputs;
}

enum { PAIR_BYTES = 8 };    /* two inputs: floats */

/* sum + the products of two bfloat16 weights in each lane with two inputs, the same for all lanes. */
static inline Floats pairs_plus(Floats sum, Words weights, const void *inputs)
{
    const float *pair = inputs;
    sum += (Floats)(weights << 16) * pair[0];
    return sum + (Floats)(weights & 0xffff0000) * pair[1];
}

/* sum + four products of an unsigned weight byte and a signed input byte in each lane. */
static inline Ints quads_plus(Ints sum, Words weights, Words inputs)
{
    for (int byte = 0; byte < 32; byte += 8)
        sum += (Ints)(weights >> byte & 0xff) * ((Ints)(inputs << (24 - byte)) >> 24);
    return sum;
}

#endif
