/* The blocks of GGUF tensors as they are in the file. */
#ifndef GGUF_BLOCKS_H
#define GGUF_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "panel.h"

/* The bytes of a block. */
size_t gguf_block_bytes(int dtype);

/* The codes of the inputs of group g of a block. */
void gguf_codes(uint8_t to[GROUP], int dtype, const void *block, int g);

/* Write the scales of a block for output n of a panel. `to` is the panel's struct for the block, see gguf_layout.h. */
void gguf_write_scales(int dtype, void *to, int n, const void *block);

#endif
