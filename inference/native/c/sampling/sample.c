/* Argmax and Gumbel-max sampling. The noise is a function of key and column, as in inference/engine/sampling/gumbel.py.
 *
 * An upper bound of the noise, which takes no logarithm, excludes nearly all tokens. The noise of the others is
 * computed to within a few last bits.
 */
#include "sampling/sample.h"

#include <float.h>

#include "sampling/gumbel_noise.h"
#include "thread_team.h"

typedef struct Largest {
    const Logits *logits;
    float *best;
    int64_t *ids;
} Largest;

typedef struct Draw {
    const Logits *logits;
    const uint64_t *states;
    const float *temperatures, *cutoffs;
    int64_t *ids;
} Draw;

/* The two best scores so far, and the token of the best. */
typedef struct TopTwo {
    int64_t id;
    float first, second;
} TopTwo;

/* Whether no value is NaN or +infinity. */
static int are_numbers(const float *values)
{
    int others = 0;
    for (int i = 0; i < SPAN; i++)
        others |= !(values[i] <= FLT_MAX);
    return !others;
}

static int any_is_larger(const float *values, float than)
{
    int any = 0;
    for (int i = 0; i < SPAN; i++)
        any |= values[i] > than;
    return any;
}

static int place_of_largest(const float *values)
{
    int best = 0;
    for (int i = 1; i < SPAN; i++)
        best = values[i] > values[best] ? i : best;
    return best;
}

static void find_largest(const Largest *request, int row)
{
    _Alignas(64) float values[SPAN];
    float best = -INFINITY;
    int64_t id = 0;
    for (int first = 0; first < request->logits->width; first += SPAN) {
        logits_read(request->logits, row, first, values);
        if (!are_numbers(values)) {
            best = NAN;
            break;
        }
        if (any_is_larger(values, best)) {
            const int place = place_of_largest(values);
            best = values[place];
            id = first + place;
        }
    }
    request->best[row] = best;
    request->ids[row] = id;
}

/* How far this score may differ from the one that gumbel.py computes: a few last bits of each term. */
static float doubt(float score)
{
    return 1e-5f * (fabsf(score) + 20);
}

/* A lower score cannot be the best. */
static float least_of(const TopTwo *top_two)
{
    return top_two->first - doubt(top_two->first);
}

static void update(TopTwo *top_two, int64_t id, float score)
{
    if (score > top_two->first) {
        top_two->second = top_two->first;
        top_two->first = score;
        top_two->id = id;
    } else if (score > top_two->second) {
        top_two->second = score;
    }
}

/* Whether any of these values, with the bound of its noise, may be the best, and is not below the cutoff. */
static int any_contend(const float *values, const uint32_t *bits, float least, float cutoff)
{
    int any = 0;
    for (int i = 0; i < SPAN; i++)
        any |= (values[i] + noise_bound(bits[i]) >= least) & (values[i] >= cutoff);
    return any;
}

/* Enter the tokens of a span that may be the best. Here the cutoff is compared with the exact quotient. */
static void enter_span(TopTwo *top_two, int first, const float *logits, const float *values, const uint32_t *bits,
                       float temperature, float cutoff)
{
    for (int i = 0; i < SPAN; i++)
        if (values[i] + noise_bound(bits[i]) >= least_of(top_two) && logits[i] > -INFINITY &&
            logits[i] / temperature >= cutoff)
            update(top_two, first + i, values[i] + noise_of(bits[i]));
}

static int64_t find_winner(const Draw *of, int row)
{
    _Alignas(64) float logits[SPAN], values[SPAN];
    _Alignas(64) uint32_t bits[SPAN];
    TopTwo top_two = {NO_TOKEN, -FLT_MAX, -FLT_MAX};
    const uint64_t key = noise_mix(of->states[row]);
    const float temperature = of->temperatures[row], scale = 1 / temperature;
    const float cutoff = of->cutoffs ? of->cutoffs[row] : -INFINITY;
    const float low = cutoff - doubt(cutoff);
    for (int first = 0; first < of->logits->width; first += SPAN) {
        logits_read(of->logits, row, first, logits);
        if (!are_numbers(logits))
            return NAN_LOGITS;
        for (int i = 0; i < SPAN; i++)
            values[i] = logits[i] * scale;
        const float least = least_of(&top_two), bound = least - NOISE_MOST;
        if (!any_is_larger(values, bound > low ? bound : low))
            continue;
        noise_bits(key, first, SPAN, bits);
        if (any_contend(values, bits, least, low))
            enter_span(&top_two, first, logits, values, bits, temperature, cutoff);
    }
    return top_two.id >= 0 && top_two.second >= least_of(&top_two) ? AMBIGUOUS : top_two.id;
}

static void work_largest(Team *team, int thread, void *arg)
{
    const Largest *request = arg;
    (void)thread;
    for (int row; (row = team_take(team, request->logits->rows)) >= 0;)
        find_largest(request, row);
}

static void work_winners(Team *team, int thread, void *arg)
{
    const Draw *request = arg;
    (void)thread;
    for (int row; (row = team_take(team, request->logits->rows)) >= 0;)
        request->ids[row] = find_winner(request, row);
}

void argmax(const Logits *logits, float *best, int64_t *ids)
{
    Largest request = {logits, best, ids};
    team_run(logits_threads(logits), work_largest, &request);
}

void gumbel_argmax(const Logits *logits, const uint64_t *states, const float *temperatures, const float *cutoffs,
                   int64_t *ids)
{
    Draw request = {logits, states, temperatures, cutoffs, ids};
    team_run(logits_threads(logits), work_winners, &request);
}
