/* The scales and minima of the groups of a block of Q4_K or Q5_K, a strip of outputs at a time, n the first of them. */
#ifndef FIT_GROUPS_H
#define FIT_GROUPS_H

#include "packing/fit.h"
#include "packing/gguf_layout.h"
#include "packing/importance.h"

static const Trials IMPORTANCE_TRIALS = {-0.9f, 0.05f, 36};

/* weights: what the values of each group weigh together. */
typedef struct GroupFits {
    Strip scales[SUPER_GROUPS], mins[SUPER_GROUPS], weights[SUPER_GROUPS];
} GroupFits;

static inline void fit_group(GroupFits *fits, int g, int dtype, const float *column, const Strip weights[GROUP],
                             Trials trials)
{
    const ScaleAndMin fit = fit_scale_and_min(column, weights, (1 << BITS[dtype]) - 1, trials);
    fits->scales[g] = fit.scale;
    fits->mins[g] = fit.min;
    fits->weights[g] = (Strip){0};
    for (int k = 0; k < GROUP; k++)
        fits->weights[g] += weights[k];
}

static inline void fit_groups(GroupFits *fits, int dtype, Tile *tiles, int n)
{
    const Trials trials = dtype == Q4_K ? (Trials){-1, 0.1f, 20} : (Trials){-0.5f, 0.1f, 15};
    Strip weights[GROUP];
    for (int g = 0; g < SUPER_GROUPS; g++) {
        weigh_by_magnitude(weights, &tiles[g][0][n]);
        fit_group(fits, g, dtype, &tiles[g][0][n], weights, trials);
    }
}

/* The same with an importance matrix, by the mean square of the block. inputs: of the block. */
static inline void fit_groups_by_importance(GroupFits *fits, int dtype, Tile *tiles, int n, const float *inputs)
{
    Strip squares = {0}, weights[GROUP];
    for (int g = 0; g < SUPER_GROUPS; g++)
        squares = add_squares(squares, &tiles[g][0][n]);
    const Strip mean = 2 * squares / (SUPER_GROUPS * GROUP);
    for (int g = 0; g < SUPER_GROUPS; g++) {
        weigh_by_importance(weights, &tiles[g][0][n], inputs + g * GROUP, mean);
        fit_group(fits, g, dtype, &tiles[g][0][n], weights, IMPORTANCE_TRIALS);
    }
}

#endif
