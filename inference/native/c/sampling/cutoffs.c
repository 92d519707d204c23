/* A cutoff is the least value such that the values above it weigh less than the target. A token weighs 1 for top-k, and
 * its unnormalized probability for top-p. The cutoff is found by bisection, mostly among few candidates. */
#include "sampling/cutoffs.h"

#include <float.h>

#include "rounding.h"
#include "simd/lanes.h"
#include "thread_team.h"

enum { BLOCK = 64, HEAD = 1024 };       /* HEAD: this many of the largest tokens mostly reach top_p */

/* The buffers of one thread for a row. */
typedef struct Row {
    float *values;          /* (padded,): logits / temperature, padded with -infinity */
    float *weights;         /* (padded,) */
    float *block_max;       /* (blocks,): the largest value of each BLOCK */
    float *candidates;      /* (padded,): the largest values, in any order */
    int count, blocks;
    float largest;
} Row;

typedef struct CutoffTask {
    const Logits *logits;
    const CutoffParams *params;
    float *cutoffs;
    char *memory;
} CutoffTask;

static size_t row_bytes(const Logits *logits)
{
    const int width = round_up(logits->width, SPAN);
    return sizeof(float) * (3 * (size_t)width + round_up(width / BLOCK, LANES));
}

static Row row_at(const Logits *logits, char *memory)
{
    const int width = round_up(logits->width, SPAN);
    Row row = {.values = (float *)memory, .count = width, .blocks = width / BLOCK};
    row.weights = row.values + width;
    row.candidates = row.weights + width;
    row.block_max = row.candidates + width;
    for (int i = row.blocks; i < round_up(row.blocks, LANES); i++)
        row.block_max[i] = -INFINITY;
    return row;
}

static float largest_of(const float *values, int count)
{
    Lanes most = lanes_load(values);
    for (int i = LANES; i < count; i += LANES)
        most = lanes_larger(most, lanes_load(values + i));
    return lanes_largest(most);
}

static void read_row(Row *row, const Logits *logits, int number, float temperature)
{
    for (int first = 0; first < row->count; first += SPAN) {
        float *span = row->values + first;
        logits_read(logits, number, first, span);
        for (int i = 0; i < SPAN; i++)
            span[i] /= temperature;
    }
    for (int i = 0; i < row->blocks; i++)
        row->block_max[i] = largest_of(row->values + i * BLOCK, BLOCK);
    row->largest = largest_of(row->block_max, round_up(row->blocks, LANES));
}

/* Map floats to integers in the same order, and back. */
static int32_t ordered_int(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? INT32_MIN - bits : bits;
}

static float float_of(int32_t number)
{
    const int32_t bits = number < 0 ? INT32_MIN - number : number;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double count_from(float least, const float *values, int count)
{
    int amount = 0;
    for (int i = 0; i < count; i++)
        amount += values[i] >= least;
    return amount;
}

/* The weight of the values >= least. Adds spans in double: float sums of a whole row lose precision. */
static double weight_from(float least, const float *values, const float *weights, int count)
{
    double amount = 0;
    for (int first = 0; first < count; first += SPAN) {
        const int end = first + SPAN < count ? first + SPAN : count;
        Lanes sum = {0};
        for (int i = first; i < end; i += LANES)
            sum += lanes_from(least, lanes_load(values + i), lanes_load(weights + i));
        amount += lanes_sum(sum);
    }
    return amount;
}

/* The least bound such that the values above it weigh less than `target`; at most `largest`. `count` is a multiple of
 * LANES. With weights null, each value weighs 1. */
static float bisect_cutoff(const float *values, const float *weights, int count, float largest, double target)
{
    int64_t low = ordered_int(-INFINITY), high = ordered_int(largest);      /* `high` is such a bound, `low` is none */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const float next = float_of((int32_t)middle + 1);
        const double above = weights ? weight_from(next, values, weights, count) : count_from(next, values, count);
        if (above < target)
            high = middle;
        else
            low = middle;
    }
    return float_of((int32_t)high);
}

/* Copy all values >= least to `candidates`, padded with -infinity to a multiple of LANES. Returns the padded count. */
static int gather(const Row *row, float least)
{
    int count = 0;
    for (int block = 0; block < row->blocks; block++) {
        if (row->block_max[block] < least)
            continue;
        for (int i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
            row->candidates[count] = row->values[i];
            count += row->values[i] >= least;
        }
    }
    while (count % LANES)
        row->candidates[count++] = -INFINITY;
    return count;
}

/* Gather at least the `target` largest values: those from the target-th largest block maximum on, which are at least
 * `target` many, since each such block has one. */
static int gather_largest(const Row *row, int target)
{
    if (target >= row->blocks)
        return gather(row, -INFINITY);
    return gather(row, bisect_cutoff(row->block_max, NULL, round_up(row->blocks, LANES), row->largest, target));
}

/* Compute the weights of the values, 0 below `cutoff`. Returns their sum. */
static double compute_weights(const float *values, int count, float largest, float cutoff, float *weights)
{
    for (int i = 0; i < count; i += LANES) {
        const Lanes each = lanes_load(values + i);
        lanes_store(weights + i, lanes_from(cutoff, each, lanes_exp(each - largest)));
    }
    return weight_from(-INFINITY, values, weights, count);
}

static float top_k_cutoff(const Row *row, int target)
{
    const int count = gather_largest(row, target);
    return bisect_cutoff(row->candidates, NULL, count, row->largest, target);
}

/* The cutoff of top-p among the values >= cutoff, which top-k keeps. */
static float top_p_cutoff(const Row *row, float cutoff, float share)
{
    const float *values = row->values;
    int count = row->count;
    if (cutoff > -INFINITY) {
        count = gather(row, cutoff);
        values = row->candidates;
    }
    const double target = share * compute_weights(values, count, row->largest, cutoff, row->weights);
    if (values == row->values) {
        const int few = gather_largest(row, HEAD);
        const double amount = compute_weights(row->candidates, few, row->largest, cutoff, row->weights);
        if (amount >= target)
            return bisect_cutoff(row->candidates, row->weights, few, row->largest, target);
        compute_weights(values, count, row->largest, cutoff, row->weights);
    }
    return bisect_cutoff(values, row->weights, count, row->largest, target);
}

static float cutoff_of(const CutoffTask *task, Row *row, int number)
{
    const CutoffParams *params = task->params;
    const int top_k = params->top_k[number] < task->logits->width ? params->top_k[number] : 0;
    const float top_p = params->top_p[number], min_p = params->min_p[number];
    float cutoff = -INFINITY;
    if (!top_k && top_p >= 1 && min_p <= 0)
        return cutoff;
    read_row(row, task->logits, number, params->temperatures[number]);
    if (!(fabsf(row->largest) <= FLT_MAX))
        return cutoff;
    if (top_k)
        cutoff = top_k_cutoff(row, top_k);
    if (top_p < 1)
        cutoff = top_p_cutoff(row, cutoff, top_p);
    if (min_p > 0)
        cutoff = fmaxf(cutoff, (float)(row->largest + log(min_p)));
    return fminf(cutoff, row->largest);
}

static void work(Team *team, int thread, void *arg)
{
    const CutoffTask *task = arg;
    Row row = row_at(task->logits, task->memory + thread * row_bytes(task->logits));
    for (int i; (i = team_take(team, task->logits->rows)) >= 0;)
        task->cutoffs[i] = cutoff_of(task, &row, i);
}

size_t cutoffs_bytes(const Logits *logits)
{
    return logits->threads * row_bytes(logits);
}

void cutoffs_compute(const Logits *logits, const CutoffParams *params, float *cutoffs, void *memory)
{
    CutoffTask task = {logits, params, cutoffs, memory};
    team_run(logits_threads(logits), work, &task);
}
