/* Draws by noise that is a function of key and column, as inference/engine/noise.py has it.
 *
 * Nearly all tokens are ruled out by a bound on their noise, which takes no logarithm; of the few that are left
 * the noise is computed to a few last bits.
 */
#include "draw.h"

#include <float.h>

#include "noise.h"
#include "team.h"

typedef struct Largest {
    const Logits *logits;
    float *best;
    int64_t *ids;
} Largest;

typedef struct Draw {
    const Logits *logits;
    const uint64_t *states;
    const float *heats, *floors;
    int64_t *ids;
} Draw;

/* The two best scores so far, and whose the first is. */
typedef struct Race {
    int64_t id;
    float first, second;
} Race;

/* Whether all are numbers, or -infinity. */
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

static void find_largest(const Largest *of, int row)
{
    _Alignas(64) float values[SPAN];
    float best = -INFINITY;
    int64_t id = 0;
    for (int first = 0; first < of->logits->width; first += SPAN) {
        logits_read(of->logits, row, first, values);
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
    of->best[row] = best;
    of->ids[row] = id;
}

/* By how much scores may be off here, and there where they are compared: a few last bits of each part. */
static float doubt(float score)
{
    return 1e-5f * (fabsf(score) + 20);
}

/* Below it a score cannot be the first's. */
static float least_of(const Race *race)
{
    return race->first - doubt(race->first);
}

static void enter(Race *race, int64_t id, float score)
{
    if (score > race->first) {
        race->second = race->first;
        race->first = score;
        race->id = id;
    } else if (score > race->second) {
        race->second = score;
    }
}

/* Whether any of these values, with the most noise that each can have, is near the best and above the floor. */
static int any_contend(const float *values, const uint32_t *bits, float least, float floor)
{
    int any = 0;
    for (int i = 0; i < SPAN; i++)
        any |= (values[i] + noise_bound(bits[i]) >= least) & (values[i] >= floor);
    return any;
}

/* Enter those of a span that contend; heat and floor tell exactly who is out. */
static void enter_span(Race *race, int first, const float *logits, const float *values, const uint32_t *bits,
                       float heat, float floor)
{
    for (int i = 0; i < SPAN; i++)
        if (values[i] + noise_bound(bits[i]) >= least_of(race) && logits[i] > -INFINITY && logits[i] / heat >= floor)
            enter(race, first + i, values[i] + noise_of(bits[i]));
}

static int64_t find_winner(const Draw *of, int row)
{
    _Alignas(64) float logits[SPAN], values[SPAN];
    _Alignas(64) uint32_t bits[SPAN];
    Race race = {NONE_LEFT, -FLT_MAX, -FLT_MAX};
    const uint64_t key = noise_mix(of->states[row]);
    const float heat = of->heats[row], scale = 1 / heat;
    const float floor = of->floors ? of->floors[row] : -INFINITY;
    const float low = floor - doubt(floor);
    for (int first = 0; first < of->logits->width; first += SPAN) {
        logits_read(of->logits, row, first, logits);
        if (!are_numbers(logits))
            return NO_NUMBERS;
        for (int i = 0; i < SPAN; i++)
            values[i] = logits[i] * scale;
        const float least = least_of(&race), reach = least - NOISE_MOST;
        if (!any_is_larger(values, reach > low ? reach : low))
            continue;
        noise_bits(key, first, SPAN, bits);
        if (any_contend(values, bits, least, low))
            enter_span(&race, first, logits, values, bits, heat, floor);
    }
    return race.id >= 0 && race.second >= least_of(&race) ? TOO_NEAR : race.id;
}

static void work_largest(Team *team, int thread, void *of)
{
    const Largest *asked = of;
    (void)thread;
    for (int row; (row = team_take(team, asked->logits->rows)) >= 0;)
        find_largest(asked, row);
}

static void work_winners(Team *team, int thread, void *of)
{
    const Draw *asked = of;
    (void)thread;
    for (int row; (row = team_take(team, asked->logits->rows)) >= 0;)
        asked->ids[row] = find_winner(asked, row);
}

void largest(const Logits *logits, float *best, int64_t *ids)
{
    Largest asked = {logits, best, ids};
    team_run(logits_threads(logits), work_largest, &asked);
}

void winners(const Logits *logits, const uint64_t *states, const float *heats, const float *floors, int64_t *ids)
{
    Draw asked = {logits, states, heats, floors, ids};
    team_run(logits_threads(logits), work_winners, &asked);
}
