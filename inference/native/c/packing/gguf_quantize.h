/* Quantizes tiles of weights to the formats of GGUF files, as llama.cpp does. */
#ifndef GGUF_QUANTIZE_H
#define GGUF_QUANTIZE_H

#include "packing/importance.h"
#include "packing/quantize.h"

/* Quantize a block of the dtype: BLOCK_GROUPS tiles, into the groups of a panel, which are zeros, and the block's scales.
 * dtype: Q8_0, Q4_0, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K. */
void gguf_quantize_block(int dtype, uint8_t *groups, void *scales, Tile *tiles, const Importance *importance);

/* Write the sums of the squares of the outputs' values, added to `squares`. */
void gguf_add_squares(float squares[PANEL], Tile tile);

#endif
