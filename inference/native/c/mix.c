/* Softmax while scores come in (Milakov and Gimelshein 2018). A token that is not seen changes no bit of a sum. */
#include "mix.h"

#include <math.h>

#include "lanes.h"

static const float LOWEST = -1e30f;     /* below all scores, and no infinity: it is subtracted from itself */

static size_t lines(size_t floats)
{
    return (floats + LANES - 1) / LANES * LANES;
}

size_t mix_bytes(int rows, int width)
{
    return (2 * lines(rows) + (size_t)rows * width) * sizeof(float);
}

Mix mix_at(void *memory, int rows, int width)
{
    float *largest = memory;
    return (Mix){rows, width, largest, largest + lines(rows), largest + 2 * lines(rows)};
}

void mix_clear(const Mix *mix)
{
    for (int row = 0; row < mix->rows; row++)
        mix->largest[row] = LOWEST;
    memset(mix->total, 0, mix->rows * sizeof(float));
    memset(mix->sums, 0, (size_t)mix->rows * mix->width * sizeof(float));
}

static inline Lanes scored(Lanes product, const Seen *seen)
{
    const Lanes score = product * seen->scale;
    return seen->cap ? seen->cap * lanes_tanh(score / seen->cap) : score;
}

static inline Lanes hidden(Lanes scores, int first, const Seen *seen)
{
    const IntLanes number = lanes_numbers() + first;
    return lanes_chosen((number >= seen->from) & (number < seen->to), scores, lanes_all(-INFINITY));
}

/* Products become scores; the largest of them and of `most`. */
static float score(float *products, int count, float most, const Seen *seen)
{
    const int all = seen->from <= 0 && seen->to >= count;
    Lanes largest = lanes_all(most);
    for (int k = 0; k < count; k += LANES) {
        const Lanes scores = scored(lanes_load(products + k), seen);
        const Lanes kept = all ? scores : hidden(scores, k, seen);
        lanes_store(products + k, kept);
        largest = lanes_larger(kept, largest);
    }
    return lanes_largest(largest);
}

static float smaller_by(float largest, float before)
{
    return largest == before ? 1 : lanes_exp(lanes_all(before - largest))[0];
}

float mix_weigh(const Mix *mix, int row, float *products, int count, Seen seen)
{
    const float before = mix->largest[row], largest = score(products, count, before, &seen);
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
