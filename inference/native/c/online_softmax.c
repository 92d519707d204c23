/* Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867, algorithm 3). Invisible tokens leave every sum bitwise
 * unchanged. */
#include "mix.h"

#include <math.h>

#include "lanes.h"
#include "rounding.h"

static const float LOWEST = -1e30f;     /* below all scores; finite, because it is subtracted from itself */

size_t mix_bytes(int rows, int width)
{
    return (2 * round_up(rows, LANES) + (size_t)rows * width) * sizeof(float);
}

Mix mix_at(void *memory, int rows, int width)
{
    float *largest = memory;
    return (Mix){rows, width, largest, largest + round_up(rows, LANES), largest + 2 * round_up(rows, LANES)};
}

void mix_clear(const Mix *mix)
{
    for (int row = 0; row < mix->rows; row++)
        mix->largest[row] = LOWEST;
    memset(mix->total, 0, mix->rows * sizeof(float));
    memset(mix->sums, 0, (size_t)mix->rows * mix->width * sizeof(float));
}

static inline Lanes scored(Lanes product, const ScoreMask *mask)
{
    const Lanes score = product * mask->scale;
    return mask->cap ? mask->cap * lanes_tanh(score / mask->cap) : score;
}

static inline Lanes hidden(Lanes scores, int first, const ScoreMask *mask)
{
    const IntLanes number = lanes_numbers() + first;
    return lanes_select((number >= mask->from) & (number < mask->to), scores, lanes_all(-INFINITY));
}

/* Turn products into scores in place. Returns the largest of them and of `most`. */
static float score(float *products, int count, float most, const ScoreMask *mask)
{
    const int all = mask->from <= 0 && mask->to >= count;
    Lanes largest = lanes_all(most);
    for (int k = 0; k < count; k += LANES) {
        const Lanes scores = scored(lanes_load(products + k), mask);
        const Lanes visible = all ? scores : hidden(scores, k, mask);
        lanes_store(products + k, visible);
        largest = lanes_larger(visible, largest);
    }
    return lanes_largest(largest);
}

static float smaller_by(float largest, float before)
{
    return largest == before ? 1 : lanes_exp(lanes_all(before - largest))[0];
}

float mix_weigh(const Mix *mix, int row, float *products, int count, ScoreMask mask)
{
    const float before = mix->largest[row], largest = score(products, count, before, &mask);
    const float factor = smaller_by(largest, before);
    Lanes sum = {0};
    for (int k = 0; k < count; k += LANES) {
        const Lanes weights = lanes_exp(lanes_load(products + k) - largest);
        lanes_store(products + k, weights);
        sum += weights;
    }
    mix->largest[row] = largest;
    mix->total[row] = mix->total[row] * factor + lanes_sum(sum);
    return factor;
}

void mix_scale(const Mix *mix, int row, float factor)
{
    float *sums = mix->sums + (size_t)row * mix->width;
    for (int k = 0; k < mix->width && factor != 1; k += LANES)
        lanes_store(sums + k, lanes_load(sums + k) * factor);
}

void mix_join(const Mix *mix, const Mix *more)
{
    for (int row = 0; row < mix->rows; row++) {
        const float before = mix->largest[row], other = more->largest[row];
        const float largest = before > other ? before : other;
        const float factor = smaller_by(largest, before), scale = smaller_by(largest, other);
        const float *from = more->sums + (size_t)row * mix->width;
        float *sums = mix->sums + (size_t)row * mix->width;
        mix->largest[row] = largest;
        mix->total[row] = mix->total[row] * factor + more->total[row] * scale;
        for (int k = 0; k < mix->width; k += LANES)
            lanes_store(sums + k, lanes_load(sums + k) * factor + lanes_load(from + k) * scale);
    }
}

void mix_write(const Mix *mix, int row, float *to, int count)
{
    const float *sums = mix->sums + (size_t)row * mix->width;
    const float inverse = 1 / mix->total[row];
    for (int k = 0; k < count; k++)
        to[k] = sums[k] * inverse;
}
