/* Quantization of a tile, STRIP outputs at a time. */
#include "packing/quantize.h"

#include "packing/column.h"
#include "simd/bfloat.h"

enum { HALF = GROUP / 2 };

/* Round to bfloat16 as bfloat_round does; for finite numbers only. */
static inline Strip rounded(Strip values)
{
    const WordStrip bits = (WordStrip)values;
    return (Strip)((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/* Store four inputs of each output, one byte each, in the order of a line of a panel. */
static inline void store_quads(uint8_t *packed_line, const Strip quads[QUAD])
{
    WordStrip words = {0};
    for (int q = 0; q < QUAD; q++)
        words |= (WordStrip)__builtin_convertvector(quads[q], IntStrip) << 8 * q;
    memcpy(packed_line, &words, sizeof words);
}

static inline Strip int8_of(Strip values, Strip inverses)
{
    return strip_limited(strip_nearest(values * inverses), -127, 127);
}

void quantize_int8(uint8_t *to, Tile tile, const float scales[PANEL])
{
    for (int n = 0; n < PANEL; n += STRIP) {
        const Strip inverses = strip_inverse(strip_load(scales + n));
        for (int k = 0; k < GROUP; k += QUAD) {
            Strip quads[QUAD];
            for (int q = 0; q < QUAD; q++)
                quads[q] = int8_of(strip_load(&tile[k + q][n]), inverses) + INT8_ZERO;
            store_quads(to + k / QUAD * LINE_BYTES + n * QUAD, quads);
        }
    }
}

/* Candidates for the integer that a group's largest value becomes. The range is -8 to 7; values outside are clamped.
 * Trying several candidates and fitting the scale to each is the method of make_qx_quants in llama.cpp
 * (ggml/src/ggml-quants.c). */
static const float LARGEST[] = {
    -8, -7.2f, -7.4f, -7.6f, -7.8f, -8.2f, -8.4f, -8.6f, -8.8f, -9, -9.3f, -9.6f, -10, -10.5f, 7, 7.3f, 7.6f, 8, 8.5f,
};
enum { CANDIDATES = sizeof LARGEST / sizeof *LARGEST };

/* The scales; the factors that turn values into integers; and the squared error without the sum of the squared values,
 * which is the same for all candidates. */
typedef struct Fit {
    Strip scales, inverses, errors;
} Fit;

static inline Strip int4_of(Strip values, Strip inverses)
{
    return strip_limited(strip_nearest(values * inverses), -8, 7);
}

/* The least-squares scales for the integers that these factors give, for a strip of a tile. */
static inline Fit fit_of(const float *column, Strip inverses)
{
    Strip products = {0}, squares = {0};
    for (int k = 0; k < GROUP; k++) {
        const Strip values = column_at(column, k);
        const Strip integers = int4_of(values, inverses);
        products += integers * values;
        squares += integers * integers;
    }
    const Strip scales = rounded(products * strip_inverse(squares));
    return (Fit){scales, inverses, scales * (scales * squares - 2 * products)};
}

static Fit best_fit(const float *column)
{
    const Strip inverses = strip_inverse(column_largest(column, GROUP));
    Fit best = fit_of(column, LARGEST[0] * inverses);
    for (int i = 1; i < CANDIDATES; i++) {
        const Fit fit = fit_of(column, LARGEST[i] * inverses);
        const IntStrip better = fit.errors < best.errors;
        best.scales = strip_select(better, fit.scales, best.scales);
        best.inverses = strip_select(better, fit.inverses, best.inverses);
        best.errors = strip_select(better, fit.errors, best.errors);
    }
    return best;
}

/* Inputs k and k + HALF of the group, as the two nibbles of a byte. */
static inline Strip int4_pair(const float *column, int k, Strip inverses)
{
    const Strip low = int4_of(column_at(column, k), inverses);
    const Strip high = int4_of(column_at(column, k + HALF), inverses);
    return (low + INT4_ZERO) + 16 * (high + INT4_ZERO);
}

void quantize_int4(uint8_t *to, Tile tile, uint16_t scales[PANEL])
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
