/* Blocks of rows × ranks and of rows × outputs use each vector several times, and prefetch a and b: these are read in
 * short runs, and once a step. */
#include "step/low_rank.h"

#include "simd/bfloat.h"
#include "simd/lanes.h"

enum { ROWS = 4, MORE_ROWS = 8, RANKS = 4, VECTORS = 2, WIDTH = VECTORS * LANES };   /* of a block */
enum { PREFETCH = 4 * WIDTH };   /* outputs, from those computed to those prefetched */

#define INLINE static inline __attribute__((always_inline))

/* Load min(count, LANES) values, padded with zeros. */
INLINE Lanes load_part(const uint16_t *from, int count)
{
    if (count >= LANES)
        return lanes_load_bfloats(from);
    uint16_t padded[LANES] = {0};
    memcpy(padded, from, count * sizeof *from);
    return lanes_load_bfloats(padded);
}

INLINE void project(const uint16_t *x, int64_t stride, const uint16_t *a, float *low, int inputs, int rank,
                    const int rows, const int ranks)
{
    Lanes sums[ROWS][RANKS] = {{{0}}};
    int n = 0;
    for (; n + 2 * LANES <= inputs; n += 2 * LANES) {
        for (int k = 0; k < ranks; k++)
            __builtin_prefetch(a + (int64_t)(k + RANKS) * inputs + n);
        for (int r = 0; r < rows; r++)
            for (int k = 0; k < ranks; k++)
                sums[r][k] = lanes_add_products(sums[r][k], x + r * stride + n, a + (int64_t)k * inputs + n);
    }
    for (; n < inputs; n += LANES) {
        Lanes weights[RANKS];
        for (int k = 0; k < ranks; k++)
            weights[k] = load_part(a + (int64_t)k * inputs + n, inputs - n);
        for (int r = 0; r < rows; r++) {
            const Lanes values = load_part(x + r * stride + n, inputs - n);
            for (int k = 0; k < ranks; k++)
                sums[r][k] += values * weights[k];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < ranks; k++)
            low[r * rank + k] = lanes_sum(sums[r][k]);
}

/* All ranks of a few rows. */
INLINE void project_rows(const uint16_t *x, int64_t stride, const uint16_t *a, float *low, int inputs, int rank,
                         const int rows)
{
    int k = 0;
    for (; k + RANKS <= rank; k += RANKS)
        project(x, stride, a + (int64_t)k * inputs, low + k, inputs, rank, rows, RANKS);
    for (; k < rank; k++)
        project(x, stride, a + (int64_t)k * inputs, low + k, inputs, rank, rows, 1);
}

void low_rank_project(const uint16_t *x, int64_t stride, const uint16_t *a, float *low, int rows, int inputs, int rank)
{
    int row = 0;
    for (; row + ROWS <= rows; row += ROWS)
        project_rows(x + row * stride, stride, a, low + row * rank, inputs, rank, ROWS);
    for (; row < rows; row++)
        project_rows(x + row * stride, stride, a, low + row * rank, inputs, rank, 1);
}

/* WIDTH outputs of a few rows. */
INLINE void add(const float *low, const uint16_t *b, uint16_t *y, int64_t stride, int outputs, int rank, const int rows)
{
    Lanes sums[MORE_ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] = lanes_load_bfloats(y + r * stride + v * LANES);
    for (int k = 0; k < rank; k++)
        for (int v = 0; v < VECTORS; v++) {
            const Lanes weights = lanes_load_bfloats(b + (int64_t)k * outputs + v * LANES);
            __builtin_prefetch(b + (int64_t)k * outputs + v * LANES + PREFETCH);
            for (int r = 0; r < rows; r++)
                sums[r][v] += lanes_all(low[r * rank + k]) * weights;
        }
    for (int r = 0; r < rows; r++) {
        float floats[WIDTH];
        memcpy(floats, sums[r], sizeof floats);
        bfloats_round(y + r * stride, floats, WIDTH);
    }
}

/* The outputs behind the last WIDTH of a row. */
static void add_rest(const float *low, const uint16_t *b, uint16_t *y, int outputs, int rank, int count)
{
    for (int n = 0; n < count; n++) {
        float sum = bfloat_read(y[n]);
        for (int k = 0; k < rank; k++)
            sum += low[k] * bfloat_read(b[(int64_t)k * outputs + n]);
        y[n] = bfloat_round(sum);
    }
}

void low_rank_add(const float *low, const uint16_t *b, uint16_t *y, int64_t stride, int rows, int outputs, int rank)
{
    int n = 0;
    for (; n + WIDTH <= outputs; n += WIDTH) {
        int row = 0;
        for (; row + MORE_ROWS <= rows; row += MORE_ROWS)
            add(low + row * rank, b + n, y + row * stride + n, stride, outputs, rank, MORE_ROWS);
        for (; row + ROWS <= rows; row += ROWS)
            add(low + row * rank, b + n, y + row * stride + n, stride, outputs, rank, ROWS);
        for (; row < rows; row++)
            add(low + row * rank, b + n, y + row * stride + n, stride, outputs, rank, 1);
    }
    for (int row = 0; row < rows && n < outputs; row++)
        add_rest(low + row * rank, b + n, y + row * stride + n, outputs, rank, outputs - n);
}
