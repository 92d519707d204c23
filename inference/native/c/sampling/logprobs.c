/* A row is read twice, from the processor's cache the second time: its exponentials are computed again rather than kept.
 * The bits of a row do not depend on other rows or on the number of threads. */
#include "sampling/logprobs.h"

#include "simd/lanes.h"
#include "thread_team.h"

typedef struct Request {
    const Logits *logits;
    const float *largest;
    const int64_t *ids;
    float *logprobs;
    void *gradients;
} Request;

static float sum_of_exps(const Logits *logits, int row, float largest)
{
    _Alignas(64) float values[SPAN];
    Lanes sums = {0};
    for (int first = 0; first < logits->width; first += SPAN) {
        Lanes span_sums = {0};   /* of their own: a long sum of small numbers would lose bits */
        logits_read(logits, row, first, values);
        for (int i = 0; i < SPAN; i += LANES)
            span_sums += lanes_exp(lanes_load(values + i) - largest);
        sums += span_sums;
    }
    return lanes_sum(sums);
}

static float logit_of(const Logits *logits, int row, int64_t id)
{
    const int64_t place = logits->where[row] * logits->stride + id;
    const float *floats = logits->values;
    const uint16_t *halves = logits->values;
    return logits->dtype == F32 ? floats[place] : bfloat_read(halves[place]);
}

/* Store min(SPAN, width - first) values of a row of gradients. */
static void store_span(const Request *request, int row, int first, const float *values)
{
    const int width = request->logits->width, count = width - first < SPAN ? width - first : SPAN;
    const int64_t place = (int64_t)row * width + first;
    if (request->logits->dtype == F32)
        memcpy((float *)request->gradients + place, values, count * sizeof(float));
    else
        bfloats_round((uint16_t *)request->gradients + place, values, count);
}

/* 1 - probability for the token itself, -probability for the others. */
static void write_gradients(const Request *request, int row, float sum)
{
    _Alignas(64) float values[SPAN];
    const float largest = request->largest[row], scale = -1 / sum;
    const int64_t id = request->ids[row];
    for (int first = 0; first < request->logits->width; first += SPAN) {
        logits_read(request->logits, row, first, values);
        for (int i = 0; i < SPAN; i += LANES)
            lanes_store(values + i, lanes_exp(lanes_load(values + i) - largest) * scale);
        if (id >= first && id < first + SPAN)
            values[id - first] += 1;
        store_span(request, row, first, values);
    }
}

static void score_row(const Request *request, int row)
{
    const float largest = request->largest[row];
    const float sum = isfinite(largest) ? sum_of_exps(request->logits, row, largest) : NAN;
    request->logprobs[row] = logit_of(request->logits, row, request->ids[row]) - largest - logf(sum);
    if (request->gradients)
        write_gradients(request, row, sum);
}

static void work(Team *team, int thread, void *arg)
{
    const Request *request = arg;
    (void)thread;
    for (int row; (row = team_take(team, request->logits->rows)) >= 0;)
        score_row(request, row);
}

void token_logprobs(const Logits *logits, const float *largest, const int64_t *ids, float *logprobs, void *gradients)
{
    Request request = {logits, largest, ids, logprobs, gradients};
    team_run(logits_threads(logits), work, &request);
}
