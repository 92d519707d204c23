/* The factor of a block's six-bit scales, or minima, with the least weighted error: llama.cpp's search make_qp_quants
 * (ggml/src/ggml-quants.c), in the same order of operations, a strip of outputs at a time. */
#ifndef FIT_SIX_BITS_H
#define FIT_SIX_BITS_H

#include "packing/gguf_layout.h"
#include "simd/strip.h"

enum { MOST_SCALE = 63 };

static inline Strip at_most(Strip values, float most)
{
    return strip_smaller(values, strip_all(most));
}

/* The weighted squared error of the integers that `inverse` gives. */
static inline Strip six_bit_error(const Strip values[SUPER_GROUPS], const Strip weights[SUPER_GROUPS], Strip inverse)
{
    const Strip scale = 1 / inverse;
    Strip error = {0};
    for (int g = 0; g < SUPER_GROUPS; g++) {
        const Strip difference = values[g] - scale * at_most(strip_nearest(inverse * values[g]), MOST_SCALE);
        error += weights[g] * difference * difference;
    }
    return error;
}

static inline Strip best_inverse(const Strip values[SUPER_GROUPS], const Strip weights[SUPER_GROUPS], Strip largest)
{
    enum { TRIALS = 4 };    /* on either side: a tenth of an integer apart */
    Strip inverse = MOST_SCALE / largest, best = six_bit_error(values, weights, inverse);
    for (int trial = -TRIALS; trial <= TRIALS; trial++) {
        if (trial == 0)
            continue;
        const Strip other = (0.1f * trial + MOST_SCALE) / largest, error = six_bit_error(values, weights, other);
        const IntStrip is_better = error < best;
        best = strip_select(is_better, error, best);
        inverse = strip_select(is_better, other, inverse);
    }
    return inverse;
}

/* Integers of the values, and the sums whose ratio is their factor. */
typedef struct SixBits {
    Strip integers[SUPER_GROUPS], products, squares;
} SixBits;

/* Try the integer that is best for value g while the others stay. */
static inline void improve(SixBits *fit, int g, Strip value, Strip weight)
{
    const Strip old = fit->integers[g];
    Strip products = fit->products - weight * value * old, squares = fit->squares - weight * old * old;
    const Strip integer = at_most(strip_nearest(value * squares / products), MOST_SCALE);
    const IntStrip is_possible = (products > 0) & (squares > 0) & (integer != old);
    products += weight * value * integer;
    squares += weight * integer * integer;
    const IntStrip is_better = is_possible
        & (products * products * fit->squares > fit->products * fit->products * squares);
    fit->integers[g] = strip_select(is_better, integer, old);
    fit->products = strip_select(is_better, products, fit->products);
    fit->squares = strip_select(is_better, squares, fit->squares);
}

/* Write the integers of values that are not negative; returns their factor. */
static inline Strip fit_six_bits(IntStrip integers[SUPER_GROUPS], const Strip values[SUPER_GROUPS],
                                 const Strip weights[SUPER_GROUPS])
{
    enum { PASSES = 5 };
    Strip largest = {0};
    for (int g = 0; g < SUPER_GROUPS; g++)
        largest = strip_larger(values[g], largest);
    const IntStrip is_tiny = largest < 1e-15f;
    const Strip inverse = best_inverse(values, weights, largest);
    SixBits fit = {0};
    for (int g = 0; g < SUPER_GROUPS; g++) {
        fit.integers[g] = at_most(strip_nearest(inverse * values[g]), MOST_SCALE);
        fit.products += weights[g] * values[g] * fit.integers[g];
        fit.squares += weights[g] * fit.integers[g] * fit.integers[g];
    }
    for (int pass = 0; pass < PASSES; pass++)
        for (int g = 0; g < SUPER_GROUPS; g++)
            improve(&fit, g, values[g], weights[g]);
    for (int g = 0; g < SUPER_GROUPS; g++)
        integers[g] = __builtin_convertvector(strip_select(is_tiny, strip_all(0), fit.integers[g]), IntStrip);
    return strip_select(is_tiny | (fit.squares <= 0), strip_all(0), fit.products / fit.squares);
}

#endif
