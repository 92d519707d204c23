/* Converts activations to the format that a matrix of a dtype is multiplied with, one group of inputs at a time. */
#include "gemm/multiply.h"

#include "packing/quantize.h"
#include "rounding.h"
#include "simd/bfloat.h"
#include "simd/lanes.h"

enum { ALIGNED = 64 };

static size_t value_bytes(int dtype, int rows, int inputs)
{
    return round_up(rows * round_up(inputs, GROUP) * INPUT_BYTES[INPUT_DTYPE[dtype]], ALIGNED);
}

/* The bytes of `scales`, and of half of `sums`. */
static size_t group_bytes(int dtype, int rows, int inputs)
{
    return INPUT_DTYPE[dtype] == INT8 ? round_up(rows * (round_up(inputs, GROUP) / GROUP) * sizeof(float), ALIGNED) : 0;
}

size_t inputs_bytes(int dtype, int rows, int inputs)
{
    return value_bytes(dtype, rows, inputs) + 3 * group_bytes(dtype, rows, inputs);
}

Inputs inputs_at(void *memory, int dtype, int rows, int inputs)
{
    char *scales = (char *)memory + value_bytes(dtype, rows, inputs);
    char *sums = scales + group_bytes(dtype, rows, inputs);
    return (Inputs){INPUT_DTYPE[dtype], rows, (int)round_up(inputs, GROUP), memory, (float *)scales, (int32_t *)sums};
}

/* Read `count` values, and pad the group with zeros. */
static void read_group(float group[GROUP], const void *from, int dtype, int count)
{
    const float *floats = from;
    const uint16_t *halves = from;
    if (count == GROUP && dtype == F32)
        memcpy(group, floats, GROUP * sizeof(float));
    else if (count == GROUP)
        for (int k = 0; k < GROUP; k++)
            group[k] = bfloat_read(halves[k]);
    else
        for (int k = 0; k < GROUP; k++)
            group[k] = k >= count ? 0 : dtype == F32 ? floats[k] : bfloat_read(halves[k]);
}

static inline float largest_of(Lanes first, Lanes second)
{
    return lanes_largest(lanes_larger(lanes_larger(first, -first), lanes_larger(second, -second)));
}

/* Round to nearest, ties away from zero. */
static inline IntLanes rounded(Lanes scaled)
{
    const Lanes half = lanes_select(scaled < 0, lanes_all(-0.5f), lanes_all(0.5f));
    return __builtin_convertvector(scaled + half, IntLanes);
}

static inline int sum_of(IntLanes integers)
{
    return (int)lanes_sum(__builtin_convertvector(integers, Lanes));
}

/* Quantize a group: its largest absolute value becomes 127. Also writes the sums of both halves. */
static void write_integers(int8_t *to, float *scale, int32_t sums[2], const float group[GROUP])
{
    const Lanes first = lanes_load(group), second = lanes_load(group + LANES);
    const float largest = largest_of(first, second), inverse = largest > 1e-30f ? 127 / largest : 0;
    const IntLanes low = rounded(first * inverse), high = rounded(second * inverse);
    const ByteLanes low_bytes = __builtin_convertvector(low, ByteLanes);
    const ByteLanes high_bytes = __builtin_convertvector(high, ByteLanes);
    memcpy(to, &low_bytes, LANES);
    memcpy(to + LANES, &high_bytes, LANES);
    *scale = largest / 127;
    sums[0] = sum_of(low);
    sums[1] = sum_of(high);
}

static void write_group(const Inputs *to, int row, int g, const float group[GROUP])
{
    const size_t place = (size_t)row * (to->padded / GROUP) + g;
    char *values = (char *)to->values + place * GROUP * INPUT_BYTES[to->dtype];
    switch (to->dtype) {
    case F32: memcpy(values, group, GROUP * sizeof(float)); break;
    case BF16: bfloats_round((uint16_t *)values, group, GROUP); break;
    case INT8: write_integers((int8_t *)values, to->scales + place, to->sums + 2 * place, group); break;
    }
}

/* Write inputs [first, first + count) of a row, and zeros up to the end of the last group. */
static void convert(const Inputs *to, int row, int first, const void *from, int dtype, int count)
{
    float group[GROUP];
    int k = 0;
    if (to->dtype == BF16 && dtype == F32) {
        k = count / GROUP * GROUP;
        bfloats_round((uint16_t *)to->values + (size_t)row * to->padded + first, from, k);
    }
    for (; k < count; k += GROUP) {
        const int some = count - k < GROUP ? count - k : GROUP;
        read_group(group, (const char *)from + (size_t)k * dtype_bytes(dtype), dtype, some);
        write_group(to, row, (first + k) / GROUP, group);
    }
}

void inputs_convert(const Inputs *to, int row, const void *from, int dtype, int inputs)
{
    convert(to, row, 0, from, dtype, inputs);
}

void inputs_write(const Inputs *to, int row, const float *from, int inputs)
{
    convert(to, row, 0, from, F32, inputs);
}

void inputs_write_part(const Inputs *to, int row, int first, const float *from, int count)
{
    convert(to, row, first, from, F32, count);
}
