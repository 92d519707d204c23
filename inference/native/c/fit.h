/* The scale, or scale and minimum, with the least error for a group of weights, a strip of outputs at a time: llama.cpp's
 * searches make_qx_quants and make_qkx2_quants (ggml/src/ggml-quants.c), in the same order of operations. */
#ifndef FIT_H
#define FIT_H

#include <math.h>

#include "column.h"

/* Values are scale × (code - zero) or scale × code - min. */
typedef struct ScaleAndMin {
    Strip scale, min;
} ScaleAndMin;

static inline Strip strip_root(Strip values)
{
    for (int i = 0; i < STRIP; i++)
        values[i] = sqrtf(values[i]);
    return values;
}

/* The products of weights with codes, and of codes with codes, for the scale of the codes that `inverse` gives. */
typedef struct ScaleSums {
    Strip products, squares;
} ScaleSums;

static inline ScaleSums scale_sums(const float *column, int count, float most, Strip inverse)
{
    ScaleSums sums = {{0}, {0}};
    for (int k = 0; k < count; k++) {
        const Strip value = column_at(column, k), weight = value * value;
        const Strip code = strip_limited(strip_nearest(inverse * value), -most, most - 1);
        sums.products += weight * value * code;
        sums.squares += weight * code * code;
    }
    return sums;
}

/* The scale for codes -most … most - 1 of the first `count` inputs, of either sign. Each value weighs its square. */
static inline Strip fit_scale(const float *column, int count, float most)
{
    enum { TRIALS = 9 };    /* on either side: a tenth of a code apart */
    const Strip largest = column_largest(column, count);
    ScaleSums sums = scale_sums(column, count, most, -most / largest);
    Strip scale = strip_select(sums.squares == 0, strip_all(0), sums.products / sums.squares);
    Strip best = scale * sums.products;
    for (int trial = -TRIALS; trial <= TRIALS; trial++) {
        if (trial == 0)
            continue;
        sums = scale_sums(column, count, most, -(most + 0.1f * trial) / largest);
        const IntStrip is_better = (sums.squares > 0) & (sums.products * sums.products > best * sums.squares);
        scale = strip_select(is_better, sums.products / sums.squares, scale);
        best = strip_select(is_better, scale * sums.products, best);
    }
    return strip_select(strip_magnitude(largest) < 1e-15f, strip_all(0), scale);
}

/* A group with what its values weigh. */
typedef struct Weighted {
    Strip values[GROUP], weights[GROUP];
    Strip sum_weights, sum_values;      /* of the weights, and of the weighted values */
    Strip least, largest;               /* least: 0 at most */
} Weighted;

/* A value weighs its magnitude and the root mean square of the group. */
static inline void weigh(Weighted *group, const float *column)
{
    Strip squares = {0};
    for (int k = 0; k < GROUP; k++) {
        group->values[k] = column_at(column, k);
        squares += group->values[k] * group->values[k];
    }
    const Strip mean = strip_root(squares / GROUP);
    group->sum_weights = group->sum_values = (Strip){0};
    group->least = group->largest = group->values[0];
    for (int k = 0; k < GROUP; k++) {
        const Strip value = group->values[k], weight = mean + strip_magnitude(value);
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

/* The scale and minimum for codes 0 … most, over trials with a tenth more codes each, from most + first on. */
static inline ScaleAndMin fit_scale_and_min(const float *column, float most, float first, int trials)
{
    Weighted group;
    weigh(&group, column);
    const IntStrip is_flat = group.largest == group.least;
    Strip least = group.least, scale = 1 / (most / (group.largest - least));
    Strip best = affine_error(&group, least, most / (group.largest - least), scale, least, most);
    for (int trial = 0; trial <= trials; trial++) {
        const Strip inverse = (first + 0.1f * trial + most) / (group.largest - least);
        const AffineFit fit = affine_fit(&group, least, inverse, most);
        const Strip error = affine_error(&group, least, inverse, fit.scale, fit.min, most);
        const IntStrip is_better = fit.is_valid & (error < best);
        best = strip_select(is_better, error, best);
        scale = strip_select(is_better, fit.scale, scale);
        least = strip_select(is_better, fit.min, least);
    }
    return (ScaleAndMin){strip_select(is_flat, strip_all(0), scale), -strip_select(is_flat, group.least, least)};
}

#endif
