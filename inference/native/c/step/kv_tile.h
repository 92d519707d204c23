/* A KV tile: up to KV_TILE consecutive tokens of a sequence. Their keys and values are gathered from the pages into two
 * packed matrices, which the queries and the softmax weights are multiplied with. */
#ifndef KV_TILE_H
#define KV_TILE_H

#include <stddef.h>

#include "packing/matrix.h"

enum { KV_TILE = 128 };      /* tokens */

/* The keys and values of one KV head in the pages of a row. */
typedef struct Cached {
    const char *keys, *values;          /* of the layer: the same for all rows and heads */
    const int64_t *pages;
    int page;               /* tokens per page */
    int kv_dtype;           /* of the pages: `dtype` or Q8_0 */
    int dtype, head_dim;    /* dtype: of the packed matrices */
    size_t head_bytes, token_bytes;     /* of a token's head; from one token of a page to the next */
    size_t head;                        /* offset of the head in a token */
} Cached;

typedef struct KvTile {
    int count;                  /* tokens, at most KV_TILE */
    ptrdiff_t places[KV_TILE];  /* byte offsets of the heads from `keys` or `values`; NONE behind the last */
} KvTile;

enum { NONE = -1 };

size_t kv_tile_bytes(int dtype, int head_dim); /* of the larger matrix */

/* Locate tokens [first, first + count) of the row. */
KvTile kv_tile_find(const Cached *kv, int first, int count);

/* Prefetch the keys and values of a tile: reading scattered pages from memory is slow. */
void kv_tile_fetch(const Cached *kv, const KvTile *kv_tile);

/* The keys as a matrix whose outputs are tokens: it turns a row of queries into scores. Meanwhile the keys of `next`,
 * of any row and head, are prefetched, a few at a time: a core stalls when it has more loads in flight than it can
 * track. */
Matrix kv_tile_keys(void *memory, const Cached *kv, const KvTile *kv_tile, const KvTile *next);

/* The values as a matrix whose inputs are tokens: it turns a row of softmax weights into the weighted sum of values.
 * Meanwhile the values of `next` are prefetched. */
Matrix kv_tile_values(void *memory, const Cached *kv, const KvTile *kv_tile, const KvTile *next);

#endif
