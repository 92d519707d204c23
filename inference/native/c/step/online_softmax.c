/* Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867, algorithm 3). Invisible tokens leave every sum bitwise
 * unchanged. */
#include "step/online_softmax.h"

#include <math.h>

#include "rounding.h"
#include "simd/lanes.h"

static const float LOWEST = -1e30f;     /* below all scores; finite, because it is subtracted from itself */

size_t softmax_bytes(int rows, int width)
{
    return (2 * round_up(rows, LANES) + (size_t)rows * width) * sizeof(float);
}

OnlineSoftmax softmax_at(void *memory, int rows, int width)
{
    float *largest = memory;
    return (OnlineSoftmax){rows, width, largest, largest + round_up(rows, LANES), largest + 2 * round_up(rows, LANES)};
}

void softmax_clear(const OnlineSoftmax *softmax)
{
    for (int row = 0; row < softmax->rows; row++)
        softmax->largest[row] = LOWEST;
    memset(softmax->total, 0, softmax->rows * sizeof(float));
    memset(softmax->sums, 0, (size_t)softmax->rows * softmax->width * sizeof(float));
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

float softmax_weigh(const OnlineSoftmax *softmax, int row, float *products, int count, ScoreMask mask)
{
    const float before = softmax->largest[row], largest = score(products, count, before, &mask);
    const float factor = smaller_by(largest, before);
    Lanes sum = {0};
    for (int k = 0; k < count; k += LANES) {
        const Lanes weights = lanes_exp(lanes_load(products + k) - largest);
        lanes_store(products + k, weights);
        sum += weights;
    }
    softmax->largest[row] = largest;
    softmax->total[row] = softmax->total[row] * factor + lanes_sum(sum);
    return factor;
}

void softmax_scale(const OnlineSoftmax *softmax, int row, float factor)
{
    float *sums = softmax->sums + (size_t)row * softmax->width;
    for (int k = 0; k < softmax->width && factor != 1; k += LANES)
        lanes_store(sums + k, lanes_load(sums + k) * factor);
}

void softmax_merge(const OnlineSoftmax *softmax, const OnlineSoftmax *more)
{
    for (int row = 0; row < softmax->rows; row++) {
        const float before = softmax->largest[row], other = more->largest[row];
        const float largest = before > other ? before : other;
        const float factor = smaller_by(largest, before), scale = smaller_by(largest, other);
        const float *from = more->sums + (size_t)row * softmax->width;
        float *sums = softmax->sums + (size_t)row * softmax->width;
        softmax->largest[row] = largest;
        softmax->total[row] = softmax->total[row] * factor + more->total[row] * scale;
        for (int k = 0; k < softmax->width; k += LANES)
            lanes_store(sums + k, lanes_load(sums + k) * factor + lanes_load(from + k) * scale);
    }
}

void softmax_write(const OnlineSoftmax *softmax, int row, float *to, int count)
{
    const float *sums = softmax->sums + (size_t)row * softmax->width;
    const float inverse = 1 / softmax->total[row];
    for (int k = 0; k < count; k++)
        to[k] = sums[k] * inverse;
}
