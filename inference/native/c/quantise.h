/* Tiles of weights as integers: INT8 with a scale for each output, INT4 with one for each output and group.
 *
 * They are kept unsigned, moved up by half their range, since the instructions that multiply integers take one
 * unsigned and one signed factor.
 */
#ifndef QUANTISE_H
#define QUANTISE_H

#include "matrix.h"

enum { TILE = GROUP * PANEL, INT8_ZERO = 128, INT4_ZERO = 8 };

typedef float Tile[GROUP][PANEL];   /* inputs of a group, outputs of a panel */

/* TILE bytes in the order of an INT8 panel. */
void quantise_int8(uint8_t *to, Tile tile, const float scales[PANEL]);

/* TILE / 2 bytes: the inputs of the group's first half in the low halves, in the order of an INT8 panel, those
 * of its second half above them. Writes the scales too, as bfloat16. */
void quantise_int4(uint8_t *to, Tile tile, uint16_t scales[PANEL]);

/* Value (k, n) of a panel without its scale. */
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
