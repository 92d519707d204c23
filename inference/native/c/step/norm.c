/* The RMS norm. */
#include "step/norm.h"

#include <math.h>

#include "simd/lanes.h"

static float mean_square(const float *from, int count)
{
    Lanes sum = {0};
    for (int k = 0; k < count; k += LANES) {
        const Lanes lane_values = lanes_load_part(from + k, count - k);
        sum += lane_values * lane_values;
    }
    return lanes_sum(sum) / count;
}

void norm_write(float *to, const float *from, const float *weight, int count, float epsilon)
{
    const float factor = 1 / sqrtf(mean_square(from, count) + epsilon);
    int k = 0;
    for (; k + LANES <= count; k += LANES)
        lanes_store(to + k, lanes_load(from + k) * factor * lanes_load(weight + k));
    for (; k < count; k++)
        to[k] = from[k] * factor * weight[k];
}
