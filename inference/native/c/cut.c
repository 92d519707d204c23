/* A cut is a value: the least one before which, the largest first, there is less weight than is wanted; each
 * token weighs 1 for top-k, and its probability for top-p. The value is found by bisection, mostly among few. */
#include "cut.h"

#include <float.h>

#include "lanes.h"
#include "team.h"

enum { BLOCK = 64, HEAD = 1024 };       /* HEAD: as many of the largest tokens as mostly hold top-p's share */

/* What one thread needs for a row. */
typedef struct Row {
    float *values;          /* (padded,): logits / heat, and -infinity behind them */
    float *weights;         /* (padded,) */
    float *most;            /* (blocks,): of each BLOCK of values */
    float *some;            /* (padded,): the largest of the values, in any order */
    int count, blocks;
    float largest;
} Row;

typedef struct Cutting {
    const Logits *logits;
    const Cuts *cuts;
    float *floors;
    char *memory;
} Cutting;

static int padded(int count, int to)
{
    return (count + to - 1) / to * to;
}

static size_t row_bytes(const Logits *logits)
{
    const int width = padded(logits->width, SPAN);
    return sizeof(float) * (3 * (size_t)width + padded(width / BLOCK, LANES));
}

static Row row_at(const Logits *logits, char *memory)
{
    const int width = padded(logits->width, SPAN);
    Row row = {.values = (float *)memory, .count = width, .blocks = width / BLOCK};
    row.weights = row.values + width;
    row.some = row.weights + width;
    row.most = row.some + width;
    for (int i = row.blocks; i < padded(row.blocks, LANES); i++)
        row.most[i] = -INFINITY;
    return row;
}

static float largest_of(const float *values, int count)
{
    Lanes most = lanes_load(values);
    for (int i = LANES; i < count; i += LANES)
        most = lanes_larger(most, lanes_load(values + i));
    return lanes_largest(most);
}

static void fill(Row *row, const Logits *logits, int number, float heat)
{
    for (int first = 0; first < row->count; first += SPAN) {
        float *span = row->values + first;
        logits_read(logits, number, first, span);
        for (int i = 0; i < SPAN; i++)
            span[i] /= heat;
    }
    for (int i = 0; i < row->blocks; i++)
        row->most[i] = largest_of(row->values + i * BLOCK, BLOCK);
    row->largest = largest_of(row->most, padded(row->blocks, LANES));
}

/* Numbers in the order of floats, and back. */
static int32_t number_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? INT32_MIN - bits : bits;
}

static float value_of(int32_t number)
{
    const int32_t bits = number < 0 ? INT32_MIN - number : number;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double count_from(float least, const float *values, int count)
{
    int held = 0;
    for (int i = 0; i < count; i++)
        held += values[i] >= least;
    return held;
}

/* In parts that floats can add up. */
static double weight_from(float least, const float *values, const float *weights, int count)
{
    double held = 0;
    for (int first = 0; first < count; first += SPAN) {
        const int end = first + SPAN < count ? first + SPAN : count;
        Lanes sum = {0};
        for (int i = first; i < end; i += LANES)
            sum += lanes_from(least, lanes_load(values + i), lanes_load(weights + i));
        held += lanes_sum(sum);
    }
    return held;
}

/* The least bound for values (a multiple of LANES of them) above which there is less than `wanted`; weights null:
 * each is 1. The largest of them at most. */
static float cut_at(const float *values, const float *weights, int count, float largest, double wanted)
{
    int64_t low = number_of(-INFINITY), high = number_of(largest);      /* `high` is such a bound, `low` is not */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const float next = value_of((int32_t)middle + 1);
        const double above = weights ? weight_from(next, values, weights, count) : count_from(next, values, count);
        if (above < wanted)
            high = middle;
        else
            low = middle;
    }
    return value_of((int32_t)high);
}

/* Gather all values from `least` on; how many, rounded up to LANES by -infinity. */
static int gather(const Row *row, float least)
{
    int count = 0;
    for (int block = 0; block < row->blocks; block++) {
        if (row->most[block] < least)
            continue;
        for (int i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
            row->some[count] = row->values[i];
            count += row->values[i] >= least;
        }
    }
    while (count % LANES)
        row->some[count++] = -INFINITY;
    return count;
}

/* Gather `wanted` of the largest values at least. Each block has one that is no smaller than its largest. */
static int gather_largest(const Row *row, int wanted)
{
    if (wanted >= row->blocks)
        return gather(row, -INFINITY);
    return gather(row, cut_at(row->most, NULL, padded(row->blocks, LANES), row->largest, wanted));
}

/* Weights of values that are not below `floor`; their sum. */
static double weigh(const float *values, int count, float largest, float floor, float *weights)
{
    for (int i = 0; i < count; i += LANES) {
        const Lanes each = lanes_load(values + i);
        lanes_store(weights + i, lanes_from(floor, each, lanes_exp(each - largest)));
    }
    return weight_from(-INFINITY, values, weights, count);
}

static float cut_by_count(const Row *row, int wanted)
{
    const int count = gather_largest(row, wanted);
    return cut_at(row->some, NULL, count, row->largest, wanted);
}

/* Among the values from `floor` on, which top-k has left. */
static float cut_by_weight(const Row *row, float floor, float share)
{
    const float *values = row->values;
    int count = row->count;
    if (floor > -INFINITY) {
        count = gather(row, floor);
        values = row->some;
    }
    const double wanted = share * weigh(values, count, row->largest, floor, row->weights);
    if (values == row->values) {
        const int few = gather_largest(row, HEAD);
        const double held = weigh(row->some, few, row->largest, floor, row->weights);
        if (held >= wanted)
            return cut_at(row->some, row->weights, few, row->largest, wanted);
        weigh(values, count, row->largest, floor, row->weights);
    }
    return cut_at(values, row->weights, count, row->largest, wanted);
}

static float floor_of(const Cutting *all, Row *row, int number)
{
    const Cuts *cuts = all->cuts;
    const int top_k = cuts->top_k[number] < all->logits->width ? cuts->top_k[number] : 0;
    const float top_p = cuts->top_p[number], min_p = cuts->min_p[number];
    float floor = -INFINITY;
    if (!top_k && top_p >= 1 && min_p <= 0)
        return floor;
    fill(row, all->logits, number, cuts->heats[number]);
    if (!(fabsf(row->largest) <= FLT_MAX))
        return floor;
    if (top_k)
        floor = cut_by_count(row, top_k);
    if (top_p < 1)
        floor = cut_by_weight(row, floor, top_p);
    if (min_p > 0)
        floor = fmaxf(floor, (float)(row->largest + log(min_p)));
    return fminf(floor, row->largest);
}

static void work(Team *team, int thread, void *of)
{
    const Cutting *all = of;
    Row row = row_at(all->logits, all->memory + thread * row_bytes(all->logits));
    for (int i; (i = team_take(team, all->logits->rows)) >= 0;)
        all->floors[i] = floor_of(all, &row, i);
}

size_t cut_bytes(const Logits *logits)
{
    return logits->threads * row_bytes(logits);
}

void cut(const Logits *logits, const Cuts *cuts, float *floors, void *memory)
{
    Cutting all = {logits, cuts, floors, memory};
    team_run(logits_threads(logits), work, &all);
}
