/* Transposes single floats, pairs of bfloat16, which stay adjacent in a panel, or single values of float16. */
#include "packing/rows.h"

#include <stddef.h>

#include "simd/bfloat.h"

enum { WORD = 4, FLOAT_WORDS = GROUP, PAIR_WORDS = GROUP / 2 };

typedef uint32_t Words[PANEL];

static const char *row_at(const Rows *rows, int row, int input)
{
    return (const char *)rows->values + (row * rows->stride + input) * dtype_bytes(rows->dtype);
}

/* Transpose `words` words of PANEL rows, which are `stride` bytes apart. */
static inline void turn(Words *to, const char *from, ptrdiff_t stride, const int words)
{
    for (int n = 0; n < PANEL; n++)
        for (int w = 0; w < words; w++)
            memcpy(&to[w][n], from + n * stride + w * WORD, WORD);
}

static void turn_halves(uint16_t (*to)[PANEL], const char *from, ptrdiff_t stride)
{
    for (int n = 0; n < PANEL; n++)
        for (int k = 0; k < GROUP; k++)
            memcpy(&to[k][n], from + n * stride + k * sizeof(uint16_t), sizeof(uint16_t));
}

static void turn_dtype(void *to, const char *from, ptrdiff_t stride, int dtype)
{
    switch (dtype) {
    case F32: turn(to, from, stride, FLOAT_WORDS); break;
    case BF16: turn(to, from, stride, PAIR_WORDS); break;
    case F16: turn_halves(to, from, stride); break;
    }
}

void rows_turn(void *to, const Rows *rows, int input)
{
    const size_t size = dtype_bytes(rows->dtype);
    if (rows->count == PANEL && rows->inputs - input >= GROUP) {
        turn_dtype(to, row_at(rows, 0, input), rows->stride * size, rows->dtype);
        return;
    }
    char padded[PANEL][GROUP * sizeof(float)] = {{0}};
    const int inputs = rows->inputs - input < GROUP ? rows->inputs - input : GROUP;
    for (int n = 0; n < rows->count; n++)
        memcpy(padded[n], row_at(rows, n, input), inputs * size);
    turn_dtype(to, padded[0], sizeof *padded, rows->dtype);
}

void rows_tile(Tile tile, const Rows *rows, int input)
{
    uint32_t floats[GROUP][PANEL];
    if (rows->dtype == F32) {
        rows_turn(tile, rows, input);
        return;
    }
    Words pairs[PAIR_WORDS];
    rows_turn(pairs, rows, input);
    for (int w = 0; w < PAIR_WORDS; w++)
        for (int n = 0; n < PANEL; n++) {
            floats[2 * w][n] = pairs[w][n] << 16;
            floats[2 * w + 1][n] = pairs[w][n] & 0xffff0000;
        }
    memcpy(tile, floats, sizeof floats);
}

/* Compares bits: absolute values of floats have the order of their bits, and integer comparisons vectorize. */
float rows_largest(const Rows *rows, int row)
{
    const uint32_t *words = (const void *)row_at(rows, row, 0);
    const uint16_t *halves = (const void *)words;
    uint32_t most = 0;
    float largest;
    for (int k = 0; k < rows->inputs; k++) {
        const uint32_t bits = (rows->dtype == F32 ? words[k] : (uint32_t)halves[k] << 16) & 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&largest, &most, sizeof largest);
    return largest;
}
