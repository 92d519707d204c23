/* How weights become integers: of a tile, as many outputs at a time as a strip has. */
#include "quantise.h"

#include "bfloat.h"
#include "strip.h"

enum { QUAD = 4, LINE_BYTES = PANEL * QUAD, HALF = GROUP / 2 };

/* To the nearest integer, for values below 2²²: adding 1.5 × 2²³ leaves no place for a fraction. */
static inline Strip nearest(Strip values)
{
    return values + 12582912.0f - 12582912.0f;
}

static inline Strip limited(Strip values, float low, float high)
{
    return strip_smaller(strip_larger(values, strip_all(low)), strip_all(high));
}

/* 1 / scale, or 0. */
static inline Strip inverse(Strip scales)
{
    return strip_chosen(scales == 0, strip_all(0), 1 / scales);
}

static inline Strip magnitude(Strip values)
{
    return (Strip)((IntStrip)values & 0x7fffffff);
}

/* As bfloat_round makes them of numbers, and back. */
static inline Strip rounded(Strip values)
{
    const WordStrip bits = (WordStrip)values;
    return (Strip)((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/* Four inputs of each output, a byte each, as they stand in a line of a panel. */
static inline void store_quads(uint8_t *line, const Strip quads[QUAD])
{
    WordStrip words = {0};
    for (int q = 0; q < QUAD; q++)
        words |= (WordStrip)__builtin_convertvector(quads[q], IntStrip) << 8 * q;
    memcpy(line, &words, sizeof words);
}

static inline Strip int8_of(Strip values, Strip inverses)
{
    return limited(nearest(values * inverses), -127, 127);
}

void quantise_int8(uint8_t *to, Tile tile, const float scales[PANEL])
{
    for (int n = 0; n < PANEL; n += STRIP) {
        const Strip inverses = inverse(strip_load(scales + n));
        for (int k = 0; k < GROUP; k += QUAD) {
            Strip quads[QUAD];
            for (int q = 0; q < QUAD; q++)
                quads[q] = int8_of(strip_load(&tile[k + q][n]), inverses) + INT8_ZERO;
            store_quads(to + k / QUAD * LINE_BYTES + n * QUAD, quads);
        }
    }
}

/* What the group's largest value may become: -8 is the end of the range, and what is larger is cut off.
 * The idea to try several and to fit the scale to each is that of llama.cpp's make_qx_quants. */
static const float LARGEST[] = {
    -8, -7.2f, -7.4f, -7.6f, -7.8f, -8.2f, -8.4f, -8.6f, -8.8f, -9, -9.3f, -9.6f, -10, -10.5f, 7, 7.3f, 7.6f, 8, 8.5f,
};
enum { CANDIDATES = sizeof LARGEST / sizeof *LARGEST };

/* Scales, what values are multiplied with to become integers, and the squared error less the sum of the squares,
 * which is the same for all. */
typedef struct Fit {
    Strip scales, inverses, errors;
} Fit;

static inline Strip int4_of(Strip values, Strip inverses)
{
    return limited(nearest(values * inverses), -8, 7);
}

/* The scales with the least squared error for such integers, of a strip of a tile. */
static inline Fit fit_of(const float *column, Strip inverses)
{
    Strip products = {0}, squares = {0};
    for (int k = 0; k < GROUP; k++) {
        const Strip values = strip_load(column + k * PANEL);
        const Strip integers = int4_of(values, inverses);
        products += integers * values;
        squares += integers * integers;
    }
    const Strip scales = rounded(products * inverse(squares));
    return (Fit){scales, inverses, scales * (scales * squares - 2 * products)};
}

static inline Strip largest_of(const float *column)
{
    Strip largest = {0};
    for (int k = 0; k < GROUP; k++) {
        const Strip values = strip_load(column + k * PANEL);
        largest = strip_chosen(magnitude(values) > magnitude(largest), values, largest);
    }
    return largest;
}

static Fit best_fit(const float *column)
{
    const Strip inverses = inverse(largest_of(column));
    Fit best = fit_of(column, LARGEST[0] * inverses);
    for (int i = 1; i < CANDIDATES; i++) {
        const Fit fit = fit_of(column, LARGEST[i] * inverses);
        const IntStrip better = fit.errors < best.errors;
        best.scales = strip_chosen(better, fit.scales, best.scales);
        best.inverses = strip_chosen(better, fit.inverses, best.inverses);
        best.errors = strip_chosen(better, fit.errors, best.errors);
    }
    return best;
}

/* Inputs k and k + HALF of the group, in one byte. */
static inline Strip int4_pair(const float *column, int k, Strip inverses)
{
    const Strip low = int4_of(strip_load(column + k * PANEL), inverses);
    const Strip high = int4_of(strip_load(column + (k + HALF) * PANEL), inverses);
    return (low + INT4_ZERO) + 16 * (high + INT4_ZERO);
}

void quantise_int4(uint8_t *to, Tile tile, uint16_t scales[PANEL])
{
    for (int n = 0; n < PANEL; n += STRIP) {
        const float *column = &tile[0][n];
        const Fit fit = best_fit(column);
        for (int i = 0; i < STRIP; i++)
            scales[n + i] = bfloat_round(fit.scales[i]);
        for (int k = 0; k < HALF; k += QUAD) {
            Strip quads[QUAD];
            for (int q = 0; q < QUAD; q++)
                quads[q] = int4_pair(column, k + q, fit.inverses);
            store_quads(to + k / QUAD * LINE_BYTES + n * QUAD, quads);
        }
    }
}
