/* Gumbel noise as a function of a key and a column, as defined in inference/engine/sampling/gumbel.py. */
#ifndef GUMBEL_NOISE_H
#define GUMBEL_NOISE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NOISE_MOST 22.5f        /* above the largest noise, 22.2, of the least uniform */

/* SplitMix64: Steele, Lea, Flood (OOPSLA 2014), constants of Vigna's splitmix64.c (prng.di.unimi.it). */
static inline uint64_t noise_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Random bits for `count` columns from `first` on, 31 bits each. */
static inline void noise_bits(uint64_t key, int first, int count, uint32_t *bits)
{
    const uint64_t gamma = 0x9e3779b97f4a7c15;
    const uint64_t state = key + gamma * (uint64_t)(first + 1);
    for (int i = 0; i < count; i++)
        bits[i] = (uint32_t)(noise_mix(state + gamma * (uint64_t)i) >> 33);
}

static inline float noise_uniform(uint32_t bits)
{
    const float least = 0x1p-32f, most = 1 - 0x1p-24f;
    const float uniform = (float)(int32_t)bits * 0x1p-31f;
    const float raised = uniform < least ? least : uniform;
    return raised > most ? most : raised;
}

/* Gumbel noise, to within a few last bits. */
static inline float noise_of(uint32_t bits)
{
    return -logf(-log1pf(-noise_uniform(bits)));
}

/* An upper bound of the noise: -ln(-ln(1 - u)) <= -ln u. The bits of a float, as an integer, are a lower bound of
 * log₂ u: they interpolate it linearly between powers of two. */
static inline float noise_bound(uint32_t bits)
{
    const float uniform = noise_uniform(bits);
    int32_t number;
    memcpy(&number, &uniform, sizeof number);
    return 0.69314718f * (127.001f - (float)number * 0x1p-23f);
}

#endif
