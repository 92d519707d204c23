/* Quantizes a block, STRIP outputs at a time, to the codes and scales that llama.cpp gives it (quantize_row_*_ref in
 * ggml/src/ggml-quants.c, and quantize_row_*_impl with an importance matrix). Products and sums are not contracted,
 * see build.py: then the bits are the same. */
#include "packing/gguf_quantize.h"

#include "packing/fit_groups.h"
#include "packing/fit_six_bits.h"
#include "packing/gguf_layout.h"
#include "simd/half.h"

enum { HALF = GROUP / 2, HALVES = 2 * SUPER_GROUPS };

/* A strip of a panel's block: its groups, their scales, and the first output. */
typedef struct Target {
    int dtype;
    uint8_t *groups;
    void *scales;
    int n;
    const Importance *importance;
} Target;

static uint16_t half_of(float value)
{
    enum { SIGN = 0x8000 };
    return half_round(fabsf(value)) | (signbit(value) ? SIGN : 0);
}

static void write_halves(uint16_t to[PANEL], int n, Strip values)
{
    for (int i = 0; i < STRIP; i++)
        to[n + i] = half_of(values[i]);
}

static Strip read_halves(const uint16_t from[PANEL], int n)
{
    Strip values;
    for (int i = 0; i < STRIP; i++)
        values[i] = half_read(from[n + i]);
    return values;
}

static void write_bytes(void *to, int n, IntStrip values)
{
    for (int i = 0; i < STRIP; i++)
        ((uint8_t *)to)[n + i] = (uint8_t)values[i];
}

static inline IntStrip integers_of(Strip values)
{
    return __builtin_convertvector(values, IntStrip);
}

static inline Strip floats_of(IntStrip values)
{
    return __builtin_convertvector(values, Strip);
}

/* Write the codes of a quad of inputs, a byte each, into the planes of a group. */
static inline void write_quad(const Target *to, uint8_t *group, int q, WordStrip codes)
{
    for (int width = WIDEST_PLANE, up = 0; width; width /= 2)
        if (BITS[to->dtype] & width) {
            uint8_t *line = group + (up + PLANE_LINE(width, q)) * LINE_BYTES + to->n * QUAD;
            WordStrip words;
            memcpy(&words, line, sizeof words);
            words |= (codes >> up & PLANE_MASK(width)) << PLANE_SHIFT(width, q);
            memcpy(line, &words, sizeof words);
            up += width;
        }
}

/* Write the codes of group g, rounded toward zero. */
static void write_codes(const Target *to, int g, const Strip codes[GROUP])
{
    uint8_t *group = to->groups + g * BITS[to->dtype] * LINE_BYTES;
    for (int q = 0; q < QUADS; q++) {
        WordStrip words = {0};
        for (int i = 0; i < QUAD; i++)
            words |= (WordStrip)integers_of(codes[q * QUAD + i]) << 8 * i;
        write_quad(to, group, q, words);
    }
}

/* Round halves away from zero, as roundf does. */
static inline Strip round_away(Strip values)
{
    const IntStrip whole = integers_of(values);
    const Strip rest = values - floats_of(whole);
    return floats_of(whole - (rest >= 0.5f) + (rest <= -0.5f));
}

static void quantize_q8_0(const Target *to, const float *column)
{
    const float zero = ZERO[Q8_0];
    const Strip scale = strip_magnitude(column_largest(column, GROUP)) / 127, inverse = strip_inverse(scale);
    Strip codes[GROUP];
    for (int k = 0; k < GROUP; k++)
        codes[k] = strip_limited(round_away(column_at(column, k) * inverse), -127, 127) + zero;
    write_codes(to, 0, codes);
    write_halves(((ScalesOnly *)to->scales)->scale, to->n, scale);
}

/* The weights of a block of one group, with an importance matrix. */
static inline void weigh_group(Strip weights[GROUP], const Target *to, const float *column)
{
    weigh_by_importance(weights, column, to->importance->inputs, strip_load(to->importance->mean_squares + to->n));
}

/* Q4_0 and Q5_0, with an importance matrix. */
static void fit_q4_0(const Target *to, const float *column)
{
    const float zero = ZERO[to->dtype];
    Strip weights[GROUP], codes[GROUP];
    weigh_group(weights, to, column);
    const ScaleFit fit = fit_scale(column, weights, GROUP, zero);
    for (int k = 0; k < GROUP; k++)
        codes[k] = scale_code(column_at(column, k), fit.inverse, zero) + zero;
    write_codes(to, 0, codes);
    write_halves(((ScalesOnly *)to->scales)->scale, to->n, fit.scale);
}

/* Q4_0 and Q5_0: the largest value becomes code 0. */
static void quantize_q4_0(const Target *to, const float *column)
{
    const float zero = ZERO[to->dtype];
    const Strip scale = column_largest(column, GROUP) / -zero, inverse = strip_inverse(scale);
    Strip codes[GROUP];
    for (int k = 0; k < GROUP; k++)
        codes[k] = strip_limited(column_at(column, k) * inverse + (zero + 0.5f), 0, 2 * zero - 1);
    write_codes(to, 0, codes);
    write_halves(((ScalesOnly *)to->scales)->scale, to->n, scale);
}

/* With an importance matrix. */
static void fit_q5_1(const Target *to, const float *column)
{
    const float most = (1 << BITS[to->dtype]) - 1;
    Strip weights[GROUP], codes[GROUP];
    weigh_group(weights, to, column);
    const ScaleAndMin fit = fit_scale_and_min(column, weights, most, IMPORTANCE_TRIALS);
    for (int k = 0; k < GROUP; k++)
        codes[k] = affine_code(column_at(column, k), fit.least, fit.inverse, most);
    write_codes(to, 0, codes);
    write_halves(((ScalesAndMinima *)to->scales)->scale, to->n, fit.scale);
    write_halves(((ScalesAndMinima *)to->scales)->min, to->n, fit.min);
}

static void quantize_q5_1(const Target *to, const float *column)
{
    const float most = (1 << BITS[to->dtype]) - 1;
    Strip least = column_at(column, 0), largest = least, codes[GROUP];
    for (int k = 1; k < GROUP; k++) {
        least = strip_smaller(column_at(column, k), least);
        largest = strip_larger(column_at(column, k), largest);
    }
    const Strip scale = (largest - least) / most, inverse = strip_inverse(scale);
    for (int k = 0; k < GROUP; k++)
        codes[k] = strip_limited((column_at(column, k) - least) * inverse + 0.5f, 0, most);
    write_codes(to, 0, codes);
    write_halves(((ScalesAndMinima *)to->scales)->scale, to->n, scale);
    write_halves(((ScalesAndMinima *)to->scales)->min, to->n, -least);
}

/* Pack the six-bit scales and minima of a block as the file has them. */
static void write_six_bits(ScalesQ4K *to, int n, const IntStrip scales[SUPER_GROUPS], const IntStrip mins[SUPER_GROUPS])
{
    enum { EARLY = SUPER_GROUPS / 2 };
    for (int g = 0; g < EARLY; g++) {
        const IntStrip scale = scales[g + EARLY], min = mins[g + EARLY];
        write_bytes(to->six_bits[g], n, scales[g] | scale >> 4 << 6);
        write_bytes(to->six_bits[g + EARLY], n, mins[g] | min >> 4 << 6);
        write_bytes(to->six_bits[g + 2 * EARLY], n, (scale & 15) | (min & 15) << 4);
    }
}

/* The six-bit integers of scales, or of minima, and their factor, rounded to float16. */
static void round_to_six_bits(IntStrip integers[SUPER_GROUPS], uint16_t factor[PANEL], int n,
                              const Strip values[SUPER_GROUPS])
{
    Strip largest = {0};
    for (int g = 0; g < SUPER_GROUPS; g++)
        largest = strip_larger(values[g], largest);
    const Strip inverse = strip_select(largest > 0, MOST_SCALE / largest, strip_all(0));
    for (int g = 0; g < SUPER_GROUPS; g++)
        integers[g] = integers_of(strip_limited(strip_nearest(inverse * values[g]), 0, MOST_SCALE));
    write_halves(factor, n, largest / MOST_SCALE);
}

/* Q4_K and Q5_K. */
static void quantize_q4_k(const Target *to, Tile *tiles)
{
    ScalesQ4K *scales = to->scales;
    const int n = to->n;
    const float most = (1 << BITS[to->dtype]) - 1;
    IntStrip six_scales[SUPER_GROUPS], six_mins[SUPER_GROUPS];
    GroupFits fits;
    if (to->importance->inputs) {
        fit_groups_by_importance(&fits, to->dtype, tiles, n, to->importance->inputs);
        write_halves(scales->scale, n, fit_six_bits(six_scales, fits.scales, fits.weights));
        write_halves(scales->min, n, fit_six_bits(six_mins, fits.mins, fits.weights));
    } else {
        fit_groups(&fits, to->dtype, tiles, n);
        round_to_six_bits(six_scales, scales->scale, n, fits.scales);
        round_to_six_bits(six_mins, scales->min, n, fits.mins);
    }
    write_six_bits(scales, n, six_scales, six_mins);
    const Strip scale_factor = read_halves(scales->scale, n), min_factor = read_halves(scales->min, n);
    for (int g = 0; g < SUPER_GROUPS; g++) {
        const Strip scale = scale_factor * floats_of(six_scales[g]), min = min_factor * floats_of(six_mins[g]);
        Strip codes[GROUP];
        for (int k = 0; k < GROUP; k++)
            codes[k] = strip_limited(strip_nearest((column_at(&tiles[g][0][n], k) + min) / scale), 0, most);
        write_codes(to, g, codes);
    }
}

/* The inverse of the factor of Q6_K's scales: that with the largest magnitude becomes -128. 0 if all are tiny. */
static Strip inverse_factor(const Strip scales[HALVES])
{
    Strip largest = {0};
    for (int half = 0; half < HALVES; half++)
        largest = strip_select(strip_magnitude(scales[half]) > strip_magnitude(largest), scales[half], largest);
    return strip_select(strip_magnitude(largest) < 1e-15f, strip_all(0), -128 / largest);
}

static void quantize_q6_k(const Target *to, Tile *tiles)
{
    ScalesQ6K *scales = to->scales;
    const int n = to->n;
    const float zero = ZERO[Q6_K];
    const float *inputs = to->importance->inputs;
    Strip half_scales[HALVES], codes[GROUP], weights[HALF];
    for (int half = 0; half < HALVES; half++) {
        const float *column = &tiles[half / 2][half % 2 * HALF][n];
        weigh_scale(weights, column, HALF, inputs ? inputs + half * HALF : inputs);
        half_scales[half] = fit_scale(column, weights, HALF, zero).scale;
    }
    const Strip inverse = inverse_factor(half_scales);
    write_halves(scales->scale, n, strip_inverse(inverse));
    const Strip factor = read_halves(scales->scale, n);
    for (int half = 0; half < HALVES; half++) {
        const Strip integer = strip_limited(strip_nearest(inverse * half_scales[half]), -128, 127);
        const Strip scale = factor * integer;
        write_bytes(scales->halves[half], n, integers_of(integer));
        for (int k = 0; k < HALF; k++) {
            const Strip value = column_at(&tiles[half / 2][half % 2 * HALF][n], k);
            codes[half % 2 * HALF + k] = strip_limited(strip_nearest(value / scale), -zero, zero - 1) + zero;
        }
        if (half % 2)
            write_codes(to, half / 2, codes);
    }
}

void gguf_add_squares(float squares[PANEL], Tile tile)
{
    for (int n = 0; n < PANEL; n += STRIP) {
        const Strip sums = add_squares(strip_load(squares + n), &tile[0][n]);
        memcpy(squares + n, &sums, sizeof sums);
    }
}

void gguf_quantize_block(int dtype, uint8_t *groups, void *scales, Tile *tiles, const Importance *importance)
{
    const int weighs = importance->inputs != 0;
    for (int n = 0; n < PANEL; n += STRIP) {
        const Target to = {dtype, groups, scales, n, importance};
        const float *column = &tiles[0][0][n];
        switch (dtype) {
        case Q8_0: quantize_q8_0(&to, column); break;
        case Q4_0: case Q5_0: (weighs ? fit_q4_0 : quantize_q4_0)(&to, column); break;
        case Q5_1: (weighs ? fit_q5_1 : quantize_q5_1)(&to, column); break;
        case Q4_K: case Q5_K: quantize_q4_k(&to, tiles); break;
        case Q6_K: quantize_q6_k(&to, tiles); break;
        }
    }
}
