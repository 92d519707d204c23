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

static float sum_of_exps(const Logits *of, int row, float largest)
{
    _Alignas(64) float values[SPAN];
    Lanes sums = {0};
    for (int first = 0; first < of->width; first += SPAN) {
        Lanes span_sums = {0};   /* of their own: a long sum of small numbers would lose bits */
        logits_read(of, row, first, values);
        for (int i = 0; i < SPAN; i += LANES)
            span_sums += lanes_exp(lanes_load(values + i) - largest);
        sums += span_sums;
    }
    return lanes_sum(sums);
}

static float logit_of(const Logits *of, int row, int64_t id)
{
    const int64_t place = of->where[row] * of->stride + id;
    return of->dtype == F32 ? ((const float *)of->values)[place] : bfloat_read(((const uint16_t *)of->values)[place]);
}

/* Store min(SPAN, width - first) values of a row of gradients. */
static void store_span(const Request *of, int row, int first, const float *values)
{
    const int width = of->logits->width, count = width - first < SPAN ? width - first : SPAN;
    const int64_t place = (int64_t)row * width + first;
    if (of->logits->dtype == F32)
        memcpy((float *)of->gradients + place, values, count * sizeof(float));
    else
        bfloats_round((uint16_t *)of->gradients + place, values, count);
}

/* 1 - probability for the token itself, -probability for the others. */
static void write_gradients(const Request *of, int row, float sum)
{
    _Alignas(64) float values[SPAN];
    const float largest = of->largest[row], scale = -1 / sum;
    const int64_t id = of->ids[row];
    for (int first = 0; first < of->logits->width; first += SPAN) {
        logits_read(of->logits, row, first, values);
        for (int i = 0; i < SPAN; i += LANES)
            lanes_store(values + i, lanes_exp(lanes_load(values + i) - largest) * scale);
        if (id >= first && id < first + SPAN)
            values[id - first] += 1;
        store_span(of, row, first, values);
    }
}

static void score_row(const Request *of, int row)
{
    const float largest = of->largest[row];
    const float sum = isfinite(largest) ? sum_of_exps(of->logits, row, largest) : NAN;
    of->logprobs[row] = logit_of(of->logits, row, of->ids[row]) - largest - logf(sum);
    if (of->gradients)
        write_gradients(of, row, sum);
}

static void work(Team *team, int thread, void *of)
{
    const Request *request = of;
    (void)thread;
    for (int row; (row = team_take(team, request->logits->rows)) >= 0;)
        score_row(request, row);
}

void token_logprobs(const Logits *logits, const float *largest, const int64_t *ids, float *logprobs, void *gradients)
{
    Request request = {logits, largest, ids, logprobs, gradients};
    team_run(logits_threads(logits), work, &request);
}
