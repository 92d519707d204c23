/* The blocks of GGUF tensors as they are in the file. */
#ifndef GGUF_BLOCKS_H
#define GGUF_BLOCKS_H

#include <stddef.h>

/* The bytes of a block. */
size_t gguf_block_bytes(int dtype);

/* The code of input k of group g of a block. */
int gguf_code(int dtype, const void *block, int g, int k);

/* Write the scales of a block for output n of a panel. `to` is the panel's struct for the block, see gguf_layout.h. */
void gguf_write_scales(int dtype, void *to, int n, const void *block);

#endif
