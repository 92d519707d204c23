/* The scale, or scale and minimum, with the least error for a group of weights, a strip of outputs at a time: llama.cpp's
 * searches make_qx_quants, make_qkx2_quants and make_qkx3_quants (ggml/src/ggml-quants.c), in the same order of
 * operations. */
#ifndef FIT_H
#define FIT_H

#include "packing/column.h"

/* Values are scale × (code - zero). inverse: gives the codes that the scale was fitted to. */
typedef struct ScaleFit {
    Strip scale, inverse;
} ScaleFit;

/* Values are scale × code - min. inverse, least: give the codes that both were fitted to, see affine_code. */
typedef struct ScaleAndMin {
    Strip scale, min, inverse, least;
} ScaleAndMin;

static inline Strip scale_code(Strip value, Strip inverse, float most)
{
    return strip_limited(strip_nearest(inverse * value), -most, most - 1);
}

/* The products of weights with codes, and of codes with codes, for the scale of the codes that `inverse` gives. */
typedef struct ScaleSums {
    Strip products, squares;
} ScaleSums;

static inline ScaleSums scale_sums(const float *column, const Strip *weights, int count, float most, Strip inverse)
{
    ScaleSums sums = {{0}, {0}};
    for (int k = 0; k < count; k++) {
        const Strip value = column_at(column, k), code = scale_code(value, inverse, most);
        sums.products += weights[k] * value * code;
        sums.squares += weights[k] * code * code;
    }
    return sums;
}

/* The scale for codes -most … most - 1 of the first `count` inputs, of either sign. */
static inline ScaleFit fit_scale(const float *column, const Strip *weights, int count, float most)
{
    enum { TRIALS = 9 };    /* on either side: a tenth of a code apart */
    const Strip largest = column_largest(column, count);
    Strip best_inverse = -most / largest;
    ScaleSums sums = scale_sums(column, weights, count, most, best_inverse);
    Strip scale = strip_select(sums.squares == 0, strip_all(0), sums.products / sums.squares);
    Strip best = scale * sums.products;
    for (int trial = -TRIALS; trial <= TRIALS; trial++) {
        if (trial == 0)
            continue;
        const Strip inverse = -(most + 0.1f * trial) / largest;
        sums = scale_sums(column, weights, count, most, inverse);
        const IntStrip is_better = (sums.squares > 0) & (sums.products * sums.products > best * sums.squares);
        scale = strip_select(is_better, sums.products / sums.squares, scale);
        best = strip_select(is_better, scale * sums.products, best);
        best_inverse = strip_select(is_better, inverse, best_inverse);
    }
    const IntStrip is_tiny = strip_magnitude(largest) < 1e-15f;
    return (ScaleFit){strip_select(is_tiny, strip_all(0), scale), strip_select(is_tiny, strip_all(0), best_inverse)};
}

/* A group with what its values weigh. */
typedef struct Weighted {
    Strip values[GROUP], weights[GROUP];
    Strip sum_weights, sum_values;      /* of the weights, and of the weighted values */
    Strip least, largest;               /* least: 0 at most */
} Weighted;

static inline void weigh(Weighted *group, const float *column, const Strip weights[GROUP])
{
    group->sum_weights = group->sum_values = (Strip){0};
    group->least = group->largest = column_at(column, 0);
    for (int k = 0; k < GROUP; k++) {
        const Strip value = column_at(column, k), weight = weights[k];
        group->values[k] = value;
        group->weights[k] = weight;
        group->sum_weights += weight;
        group->sum_values += weight * value;
        group->least = strip_smaller(value, group->least);
        group->largest = strip_larger(value, group->largest);
    }
    group->least = strip_smaller(group->least, strip_all(0));
}

static inline Strip affine_code(Strip value, Strip least, Strip inverse, float most)
{
    return strip_limited(strip_nearest(inverse * (value - least)), 0, most);
}

/* The weighted squared error of codes that are made with one pair and read with another. */
static inline Strip affine_error(const Weighted *group, Strip least, Strip inverse, Strip scale, Strip min, float most)
{
    Strip error = {0};
    for (int k = 0; k < GROUP; k++) {
        const Strip code = affine_code(group->values[k], least, inverse, most);
        const Strip difference = scale * code + min - group->values[k];
        error += group->weights[k] * (difference * difference);
    }
    return error;
}

/* The least-squares scale and minimum, with the sign of the values, of the codes that a pair gives. `is_valid`: they
 * are determined. */
typedef struct AffineFit {
    Strip scale, min;
    IntStrip is_valid;
} AffineFit;

static inline AffineFit affine_fit(const Weighted *group, Strip least, Strip inverse, float most)
{
    Strip codes = {0}, squares = {0}, products = {0};
    for (int k = 0; k < GROUP; k++) {
        const Strip code = affine_code(group->values[k], least, inverse, most), weighted = group->weights[k] * code;
        codes += weighted;
        squares += weighted * code;
        products += weighted * group->values[k];
    }
    const Strip determinant = group->sum_weights * squares - codes * codes;
    const Strip scale = (group->sum_weights * products - group->sum_values * codes) / determinant;
    const Strip min = (squares * group->sum_values - codes * products) / determinant;
    const IntStrip is_positive = min > 0;
    return (AffineFit){strip_select(is_positive, products / squares, scale),
                       strip_select(is_positive, strip_all(0), min), determinant > 0};
}

/* The trials of a scale and minimum: each with `step` more codes than the last, from most + first on. */
typedef struct Trials {
    float first, step;
    int last;
} Trials;

/* The scale and minimum for codes 0 … most. */
static inline ScaleAndMin fit_scale_and_min(const float *column, const Strip weights[GROUP], float most, Trials trials)
{
    Weighted group;
    weigh(&group, column, weights);
    const IntStrip is_flat = group.largest == group.least;
    Strip least = group.least, best_inverse = most / (group.largest - least), scale = 1 / best_inverse;
    Strip best = affine_error(&group, least, best_inverse, scale, least, most), best_least = least;
    for (int trial = 0; trial <= trials.last; trial++) {
        const Strip inverse = (trials.first + trials.step * trial + most) / (group.largest - least);
        const AffineFit fit = affine_fit(&group, least, inverse, most);
        const Strip error = affine_error(&group, least, inverse, fit.scale, fit.min, most);
        const IntStrip is_better = fit.is_valid & (error < best);
        best = strip_select(is_better, error, best);
        best_inverse = strip_select(is_better, inverse, best_inverse);
        best_least = strip_select(is_better, least, best_least);
        scale = strip_select(is_better, fit.scale, scale);
        least = strip_select(is_better, fit.min, least);
    }
    return (ScaleAndMin){strip_select(is_flat, strip_all(0), scale), -strip_select(is_flat, group.least, least),
                         strip_select(is_flat, strip_all(0), best_inverse), best_least};
}

#endif
