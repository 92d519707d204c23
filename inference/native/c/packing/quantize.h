/* Quantizes tiles of weights: INT8 with a scale for each output, INT4 with a scale for each output and group.
 *
 * The integers are stored unsigned, with INT8_ZERO or INT4_ZERO added: the instructions that multiply bytes take one
 * unsigned and one signed factor.
 */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include <stdint.h>

#include "panel.h"

enum { TILE = GROUP * PANEL, INT8_ZERO = 128, INT4_ZERO = 8 };

typedef float Tile[GROUP][PANEL];   /* inputs of a group × outputs of a panel */

/* Write TILE bytes in the order of an INT8 panel. */
void quantize_int8(uint8_t *to, Tile tile, const float scales[PANEL]);

/* Write TILE / 2 bytes: the low nibbles have the first half of the group's inputs, in the order of an INT8 panel; the
 * high nibbles have the second half. Also writes the scales, as bfloat16. */
void quantize_int4(uint8_t *to, Tile tile, uint16_t scales[PANEL]);

/* The integer of input k, output n of a panel, without scale and offset. */
static inline int int8_at(const uint8_t *panel, int k, int n)
{
    return panel[(k / 4 * PANEL + n) * 4 + k % 4] - INT8_ZERO;
}

static inline int int4_at(const uint8_t *panel, int k, int n)
{
    const int half = k % GROUP / (GROUP / 2), within = k % (GROUP / 2);
    const uint8_t both = panel[k / GROUP * (TILE / 2) + (within / 4 * PANEL + n) * 4 + within % 4];
    return (half ? both >> 4 : both & 15) - INT4_ZERO;
}

#endif
