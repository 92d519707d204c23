/* The activation functions. GELU is x Φ(x). GELU_TANH is its tanh approximation, computed as x times a sigmoid. */
#include "step/activation_function.h"

#include "simd/lanes.h"
#include "step/step.h"

static inline Lanes silu(Lanes x)
{
    return x / (1 + lanes_exp(-x));
}

static inline Lanes gelu_tanh(Lanes x)
{
    const Lanes inner = 0.7978845608f * (x + 0.044715f * x * x * x);   /* √(2/π) */
    return x / (1 + lanes_exp(-2 * inner));
}

/* 1 - erf(x) for x >= 0 by Abramowitz and Stegun 7.1.26, within 1.5e-7. */
static inline Lanes complement_of_erf(Lanes x)
{
    const Lanes t = 1 / (1 + 0.3275911f * x);
    Lanes sum = lanes_all(1.061405429f);
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    return sum * t * lanes_exp(-x * x);
}

static inline Lanes gelu(Lanes x)
{
    const Lanes size = lanes_larger(x, -x);
    const Lanes tail = 0.5f * complement_of_erf(size * 0.7071067812f);
    return x * lanes_select(x > 0, 1 - tail, tail);
}

/* One loop for each function, so that the function is inlined. */
#define EACH(function)                                                                                             \
    for (; k + LANES <= count; k += LANES)                                                                         \
        lanes_store(gate + k, function(lanes_load(gate + k)) * lanes_load(up + k));                                \
    last = function(lanes_load_part(gate + k, count - k)) * lanes_load_part(up + k, count - k);                    \
    break

void activate(int activation, float *gate, const float *up, int count)
{
    Lanes last = {0};
    int k = 0;
    switch (activation) {
    case SILU: EACH(silu);
    case GELU_TANH: EACH(gelu_tanh);
    case GELU: EACH(gelu);
    }
    memcpy(gate + k, &last, (count - k) * sizeof(float));
}
