/* The rows that a matrix is multiplied with, in the form that its kind takes. */
#include "multiply.h"

#include <math.h>

#include "bfloat.h"
#include "quantise.h"

enum { LINE = 64 };

static const int BYTES[] = {[F32] = 4, [BF16] = 2, [INT8] = 1, [INT4] = 1};

static int padded_to(int count, int to)
{
    return (count + to - 1) / to * to;
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static int of_integers(int kind)
{
    return kind == INT8 || kind == INT4;
}

static size_t value_bytes(int kind, int rows, int inputs)
{
    return lines((size_t)rows * padded_to(inputs, GROUP) * BYTES[kind]);
}

/* Of scales, and of sums. */
static size_t group_bytes(int kind, int rows, int inputs)
{
    return of_integers(kind) ? lines((size_t)rows * (padded_to(inputs, GROUP) / GROUP) * sizeof(float)) : 0;
}

size_t inputs_bytes(int kind, int rows, int inputs)
{
    return value_bytes(kind, rows, inputs) + 2 * group_bytes(kind, rows, inputs);
}

Inputs inputs_at(void *memory, int kind, int rows, int inputs)
{
    char *scales = (char *)memory + value_bytes(kind, rows, inputs);
    char *sums = scales + group_bytes(kind, rows, inputs);
    return (Inputs){kind, rows, padded_to(inputs, GROUP), memory, (float *)scales, (int32_t *)sums};
}

static void write_floats(float *to, const float *from, int inputs, int padded)
{
    memcpy(to, from, inputs * sizeof(float));
    memset(to + inputs, 0, (padded - inputs) * sizeof(float));
}

static void write_bfloats(uint16_t *to, const float *from, int inputs, int padded)
{
    for (int k = 0; k < inputs; k++)
        to[k] = bfloat_round(from[k]);
    memset(to + inputs, 0, (padded - inputs) * sizeof(uint16_t));
}

/* 127 stands for the largest of the group. Returns the sum of what is written. */
static int write_group(int8_t *to, float *scale, const float *from)
{
    float largest = 0;
    int sum = 0;
    for (int k = 0; k < GROUP; k++)
        largest = fabsf(from[k]) > largest ? fabsf(from[k]) : largest;
    const float inverse = largest == 0 ? 0 : 127 / largest;
    for (int k = 0; k < GROUP; k++) {
        const float scaled = from[k] * inverse;
        to[k] = (int8_t)(int)(scaled + (scaled < 0 ? -0.5f : 0.5f));
        sum += to[k];
    }
    *scale = largest / 127;
    return sum;
}

/* `zero`: what the weights were moved up by, and what their products with a group are thus too large by. */
static void write_integers(const Inputs *to, size_t start, const float *from, int count, int zero)
{
    int8_t *values = (int8_t *)to->values + start;
    for (int k = 0; k < count; k += GROUP) {
        const size_t group = (start + k) / GROUP;
        const float *whole = from + k;
        float last[GROUP] = {0};
        if (count - k < GROUP)
            whole = memcpy(last, whole, (count - k) * sizeof(float));
        to->sums[group] = -zero * write_group(values + k, to->scales + group, whole);
    }
}

void inputs_write_part(const Inputs *to, int row, int first, const float *from, int count)
{
    const size_t start = (size_t)row * to->padded + first;
    const int padded = padded_to(count, GROUP);
    switch (to->kind) {
    case F32: write_floats((float *)to->values + start, from, count, padded); break;
    case BF16: write_bfloats((uint16_t *)to->values + start, from, count, padded); break;
    case INT8: write_integers(to, start, from, count, INT8_ZERO); break;
    case INT4: write_integers(to, start, from, count, INT4_ZERO); break;
    }
}

void inputs_write(const Inputs *to, int row, const float *from, int inputs)
{
    inputs_write_part(to, row, 0, from, inputs);
}
