/* The rows that a matrix is multiplied with, in the form that its kind takes, a group of inputs at a time. */
#include "multiply.h"

#include "bfloat.h"
#include "lanes.h"
#include "quantise.h"

enum { ALIGNED = 64 };

static const int BYTES[] = {[F32] = 4, [BF16] = 2, [INT8] = 1, [INT4] = 1};

static size_t rounded_up(size_t count, size_t to)
{
    return (count + to - 1) / to * to;
}

static size_t value_bytes(int kind, int rows, int inputs)
{
    return rounded_up(rows * rounded_up(inputs, GROUP) * BYTES[kind], ALIGNED);
}

/* Of scales, and of sums. */
static size_t group_bytes(int kind, int rows, int inputs)
{
    const int has = kind == INT8 || kind == INT4;
    return has ? rounded_up(rows * (rounded_up(inputs, GROUP) / GROUP) * sizeof(float), ALIGNED) : 0;
}

size_t inputs_bytes(int kind, int rows, int inputs)
{
    return value_bytes(kind, rows, inputs) + 2 * group_bytes(kind, rows, inputs);
}

Inputs inputs_at(void *memory, int kind, int rows, int inputs)
{
    char *scales = (char *)memory + value_bytes(kind, rows, inputs);
    char *sums = scales + group_bytes(kind, rows, inputs);
    return (Inputs){kind, rows, (int)rounded_up(inputs, GROUP), memory, (float *)scales, (int32_t *)sums};
}

/* `count` values, and zeros behind them. */
static void read_group(float group[GROUP], const void *from, int form, int count)
{
    const float *floats = from;
    const uint16_t *halves = from;
    if (count == GROUP && form == F32)
        memcpy(group, floats, GROUP * sizeof(float));
    else if (count == GROUP)
        for (int k = 0; k < GROUP; k++)
            group[k] = bfloat_read(halves[k]);
    else
        for (int k = 0; k < GROUP; k++)
            group[k] = k >= count ? 0 : form == F32 ? floats[k] : bfloat_read(halves[k]);
}

typedef int8_t ByteLanes __attribute__((vector_size(LANES)));

static inline float largest_of(Lanes first, Lanes second)
{
    return lanes_largest(lanes_larger(lanes_larger(first, -first), lanes_larger(second, -second)));
}

/* To the nearest, halves away from zero. */
static inline IntLanes rounded(Lanes scaled)
{
    const Lanes half = lanes_chosen(scaled < 0, lanes_all(-0.5f), lanes_all(0.5f));
    return __builtin_convertvector(scaled + half, IntLanes);
}

/* 127 stands for the largest of the group. Returns the sum of what is written. */
static int write_integers(int8_t *to, float *scale, const float group[GROUP])
{
    const Lanes first = lanes_load(group), second = lanes_load(group + LANES);
    const float largest = largest_of(first, second), inverse = largest > 1e-30f ? 127 / largest : 0;
    const IntLanes low = rounded(first * inverse), high = rounded(second * inverse), both = low + high;
    const ByteLanes low_bytes = __builtin_convertvector(low, ByteLanes);
    const ByteLanes high_bytes = __builtin_convertvector(high, ByteLanes);
    memcpy(to, &low_bytes, LANES);
    memcpy(to + LANES, &high_bytes, LANES);
    *scale = largest / 127;
    return (int)lanes_sum(__builtin_convertvector(both, Lanes));
}

static void write_group(const Inputs *to, int row, int g, const float group[GROUP])
{
    const size_t place = (size_t)row * (to->padded / GROUP) + g;
    char *values = (char *)to->values + place * GROUP * BYTES[to->kind];
    const int zero = to->kind == INT8 ? INT8_ZERO : INT4_ZERO;
    switch (to->kind) {
    case F32: memcpy(values, group, GROUP * sizeof(float)); break;
    case BF16: bfloats_round((uint16_t *)values, group, GROUP); break;
    default: to->sums[place] = -zero * write_integers((int8_t *)values, to->scales + place, group);
    }
}

/* Inputs [first, first + count) of a row, and zeros up to the end of the last one's group. */
static void convert(const Inputs *to, int row, int first, const void *from, int form, int count)
{
    float group[GROUP];
    int k = 0;
    if (to->kind == BF16 && form == F32) {
        k = count / GROUP * GROUP;
        bfloats_round((uint16_t *)to->values + (size_t)row * to->padded + first, from, k);
    }
    for (; k < count; k += GROUP) {
        const int some = count - k < GROUP ? count - k : GROUP;
        read_group(group, (const char *)from + (size_t)k * BYTES[form], form, some);
        write_group(to, row, (first + k) / GROUP, group);
    }
}

void inputs_convert(const Inputs *to, int row, const void *from, int form, int inputs)
{
    convert(to, row, 0, from, form, inputs);
}

void inputs_write(const Inputs *to, int row, const float *from, int inputs)
{
    convert(to, row, 0, from, F32, inputs);
}

void inputs_write_part(const Inputs *to, int row, int first, const float *from, int count)
{
    convert(to, row, first, from, F32, count);
}
