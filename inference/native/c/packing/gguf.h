/* Packs tensors of GGUF files into panels, and reads their values. */
#ifndef GGUF_H
#define GGUF_H

#include "packing/gguf_layout.h"
#include "packing/matrix.h"
#include "packing/quantize.h"
#include "packing/rows.h"

/* Pack the rows of a GGUF tensor of the matrix's dtype: output n is row order[n] of `blocks`. */
void gguf_pack(const Matrix *to, const uint8_t *blocks, const int64_t *order, int threads);

/* Quantize rows to the matrix's dtype, as a panel of it. importance: of the inputs, padded with zeros, or null. */
void gguf_quantize(const Matrix *to, int panel, const Rows *rows, const float *importance);

/* The values of output n of a panel, (inputs,). */
void gguf_row(const Matrix *matrix, int panel, int n, float *row);

/* The values of a group of a panel. */
void gguf_tile(Tile tile, const Matrix *matrix, int panel, int group);

#endif
