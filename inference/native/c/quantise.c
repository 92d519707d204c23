/* How weights become integers. Each loop over n is one over the outputs of a panel, side by side. */
#include "quantise.h"

#include <math.h>

#include "bfloat.h"

/* To the nearest integer, for values below 2²²: adding 1.5 × 2²³ leaves no place for a fraction. */
static inline float nearest(float value)
{
    return value + 12582912.0f - 12582912.0f;
}

static inline float limited(float value, float low, float high)
{
    value = value < low ? low : value;
    return value > high ? high : value;
}

static inline float inverse(float scale)
{
    return scale == 0 ? 0 : 1 / scale;
}

void quantise_int8(uint8_t *to, Tile tile, const float scales[PANEL])
{
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++) {
            const float value = nearest(tile[k][n] * inverse(scales[n]));
            to[(k / 4 * PANEL + n) * 4 + k % 4] = (uint8_t)(int)(limited(value, -127, 127) + INT8_ZERO);
        }
}

/* What the group's largest value may become: -8 is the end of the range, and what is larger is cut off.
 * The idea to try several and to fit the scale to each is that of llama.cpp's make_qx_quants. */
static const float LARGEST[] = {
    -8, -7.2f, -7.4f, -7.6f, -7.8f, -8.2f, -8.4f, -8.6f, -8.8f, -9, -9.3f, -9.6f, -10, -10.5f, 7, 7.3f, 7.6f, 8, 8.5f,
};
enum { CANDIDATES = sizeof LARGEST / sizeof *LARGEST };

static inline float int4_of(float value, float inverse_scale)
{
    return limited(nearest(value * inverse_scale), -8, 7);
}

/* The scale with the least squared error for integers that were rounded by `inverses`, and that error less
 * the sum of the squares, which is the same for all. */
static void fit_scales(Tile tile, const float inverses[PANEL], float scales[PANEL], float errors[PANEL])
{
    float products[PANEL] = {0}, squares[PANEL] = {0};
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++) {
            const float integer = int4_of(tile[k][n], inverses[n]);
            products[n] += integer * tile[k][n];
            squares[n] += integer * integer;
        }
    for (int n = 0; n < PANEL; n++) {
        scales[n] = bfloat_read(bfloat_round(products[n] * inverse(squares[n])));
        errors[n] = scales[n] * (scales[n] * squares[n] - 2 * products[n]);
    }
}

static void find_largest(Tile tile, float largest[PANEL])
{
    for (int n = 0; n < PANEL; n++)
        largest[n] = 0;
    for (int k = 0; k < GROUP; k++)
        for (int n = 0; n < PANEL; n++)
            largest[n] = fabsf(tile[k][n]) > fabsf(largest[n]) ? tile[k][n] : largest[n];
}

static void find_scales(Tile tile, float inverses[PANEL], float scales[PANEL])
{
    float largest[PANEL], errors[PANEL], tried[PANEL], fitted[PANEL], error[PANEL];
    find_largest(tile, largest);
    for (int i = 0; i < CANDIDATES; i++) {
        for (int n = 0; n < PANEL; n++)
            tried[n] = LARGEST[i] * inverse(largest[n]);
        fit_scales(tile, tried, fitted, error);
        for (int n = 0; n < PANEL; n++) {
            const int better = i == 0 || error[n] < errors[n];
            errors[n] = better ? error[n] : errors[n];
            inverses[n] = better ? tried[n] : inverses[n];
            scales[n] = better ? fitted[n] : scales[n];
        }
    }
}

void quantise_int4(uint8_t *to, Tile tile, uint16_t scales[PANEL])
{
    enum { HALF = GROUP / 2 };
    float inverses[PANEL], found[PANEL];
    find_scales(tile, inverses, found);
    for (int n = 0; n < PANEL; n++)
        scales[n] = bfloat_round(found[n]);
    for (int k = 0; k < HALF; k++)
        for (int n = 0; n < PANEL; n++) {
            const int low = (int)int4_of(tile[k][n], inverses[n]) + INT4_ZERO;
            const int high = (int)int4_of(tile[k + HALF][n], inverses[n]) + INT4_ZERO;
            to[(k / 4 * PANEL + n) * 4 + k % 4] = (uint8_t)(low | high << 4);
        }
}
