/* Keys are transposed, a square of words at a time. Values stay in rows; in bfloat16, the values of two tokens are
 * interleaved. Both become panels (see matrix.h), padded with zeros. Keys and values in 8 bits are widened meanwhile. */
#include "step/kv_tile.h"

#include <string.h>

#include "rounding.h"
#include "simd/lanes.h"
#include "step/kv_block.h"

/* Functions that are compiled for each form of the pages: these arguments and what follows from them are constants.
 * in_blocks: the heads are blocks. is_full: no token is NONE, and nothing is padded. */
#define INLINE static inline __attribute__((always_inline))

enum { SIDE = 8, WORD = 4, CACHE_LINE = 64 };    /* words on a square's side; a word is one float or two bfloat16 */
/* Into the second cache: a tile and the two packed matrices of the one before do not fit the first one together. */
enum { PREFETCH_LOCALITY = 2 };

typedef uint32_t Words __attribute__((vector_size(SIDE * WORD)));

size_t kv_tile_bytes(int dtype, int head_dim)
{
    const size_t keys = matrix_bytes(dtype, KV_TILE, head_dim), values = matrix_bytes(dtype, head_dim, KV_TILE);
    return keys > values ? keys : values;
}

KvTile kv_tile_find(const Cached *kv, int first, int count)
{
    KvTile kv_tile = {.count = count};
    const int64_t *page = kv->pages + first / kv->page;
    for (int i = 0, at = first % kv->page; i < count; at = 0, page++)
        for (; at < kv->page && i < count; at++, i++)
            kv_tile.places[i] = (*page * kv->page + at) * (ptrdiff_t)kv->token_bytes + (ptrdiff_t)kv->head;
    for (int i = count; i < KV_TILE; i++)
        kv_tile.places[i] = NONE;
    return kv_tile;
}

/* Prefetch tokens [first, end) of the keys or the values. */
INLINE void fetch(const Cached *kv, const char *data, const KvTile *kv_tile, int first, int end)
{
    for (int i = first; i < end && i < kv_tile->count; i++)
        for (size_t at = 0; at < kv->head_bytes; at += CACHE_LINE)
            __builtin_prefetch(data + kv_tile->places[i] + at, 0, PREFETCH_LOCALITY);
}

void kv_tile_fetch(const Cached *kv, const KvTile *kv_tile)
{
    fetch(kv, kv->keys, kv_tile, 0, kv_tile->count);
    fetch(kv, kv->values, kv_tile, 0, kv_tile->count);
}

INLINE const char *head_at(const char *data, ptrdiff_t place, const int is_full)
{
    return is_full || place != NONE ? data + place : NULL;
}

/* Words of a head from byte `at` on, padded with zeros. */
INLINE Words words_at(const char *head, int at, int bytes, const int is_full)
{
    Words words = {0};
    if (is_full || (head && at + (int)sizeof words <= bytes))
        memcpy(&words, head + at, sizeof words);
    else if (head && at < bytes)
        memcpy(&words, head + at, bytes - at);
    return words;
}

/* The words of a head of blocks, as words_at gives those of a head of `dtype`. */
INLINE Words words_of_blocks(const char *head, int at, const int dtype)
{
    Words words = {0};
    if (!head)
        return words;
    const int value = at / dtype_bytes(dtype), first = value / LANES * LANES;
    const Lanes lanes = kv_blocks_load((const KVBlock *)head, first);
    if (dtype == F32) {
        memcpy(&words, (const char *)&lanes + (value - first) * sizeof(float), sizeof words);
    } else {
        const HalfLanes halves = lanes_to_bfloats(lanes);
        memcpy(&words, &halves, sizeof words);
    }
    return words;
}

/* A step of the transposition: swap the off-diagonal quadrants of each square of 2 × step words. */
#define TRADE(square, step, ...)                                                                                   \
    for (int i = 0; i < SIDE; i++)                                                                                 \
        if (!(i & step)) {                                                                                         \
            const Words a = square[i], b = square[i + step];                                                       \
            const Words low = {__VA_ARGS__}, high = low + step;                                                    \
            square[i] = __builtin_shuffle(a, b, low);                                                              \
            square[i + step] = __builtin_shuffle(a, b, high);                                                      \
        }

static inline void turn(Words square[SIDE])
{
    TRADE(square, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    TRADE(square, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    TRADE(square, 4, 0, 1, 2, 3, 8, 9, 10, 11)
}

/* Write half a panel: SIDE tokens, all words of the head. */
INLINE void turn_heads(char *to, const Cached *kv, const ptrdiff_t places[SIDE], int padded_bytes, const int in_blocks,
                       const int is_full)
{
    for (int at = 0; at < padded_bytes; at += sizeof(Words)) {
        Words square[SIDE];
        for (int i = 0; i < SIDE; i++) {
            const char *head = head_at(kv->keys, places[i], is_full);
            square[i] = in_blocks ? words_of_blocks(head, at, kv->dtype)
                                  : words_at(head, at, (int)kv->head_bytes, is_full);
        }
        turn(square);
        for (int i = 0; i < SIDE; i++)
            memcpy(to + (at / WORD + i) * PANEL * WORD, &square[i], sizeof(Words));
    }
}

/* `own`: unlike *of, its members cannot change with what is written to `memory`. */
Matrix kv_tile_keys(void *memory, const Cached *kv, const KvTile *kv_tile, const KvTile *next)
{
    const Cached own = *kv;
    const int size = dtype_bytes(own.dtype), padded = round_up(own.head_dim, GROUP);
    const int outputs = round_up(kv_tile->count, PANEL), is_whole_head = (int)own.head_bytes == padded * size;
    for (int token = 0; token < outputs; token += SIDE) {
        char *panel = (char *)memory + (size_t)(token / PANEL) * PANEL * padded * size;
        fetch(&own, own.keys, next, token, token + SIDE);
        char *to = panel + token % PANEL * WORD;
        if (own.kv_dtype == Q8_0)
            turn_heads(to, &own, kv_tile->places + token, padded * size, 1, 0);
        else if (is_whole_head && token + SIDE <= kv_tile->count)
            turn_heads(to, &own, kv_tile->places + token, padded * size, 0, 1);
        else
            turn_heads(to, &own, kv_tile->places + token, padded * size, 0, 0);
    }
    return (Matrix){own.dtype, outputs, own.head_dim, padded, memory, NULL, NULL};
}

/* LANES values of a head from `value` on, padded with zeros. */
INLINE Lanes floats_at(const char *head, int value, int width, const int in_blocks)
{
    if (!head)
        return (Lanes){0};
    if (in_blocks)
        return kv_blocks_load((const KVBlock *)head, value);
    return lanes_load_part((const float *)head + value, width - value);
}

/* The same in bfloat16, each in the low half of a word. */
INLINE WordLanes halves_at(const char *head, int value, int width, const int in_blocks, const int is_full)
{
    HalfLanes halves = {0};
    if (in_blocks) {
        if (head)
            halves = lanes_to_bfloats(kv_blocks_load((const KVBlock *)head, value));
    } else if (is_full || (head && value + LANES <= width)) {
        memcpy(&halves, head + 2 * value, sizeof halves);
    } else if (head) {
        memcpy(&halves, head + 2 * value, 2 * (width - value));
    }
    return __builtin_convertvector(halves, WordLanes);
}

/* Prefetch the cache line of the token's values that begins with `value`, if one does. */
INLINE void fetch_value(const Cached *kv, const KvTile *next, int token, int value, const int in_blocks)
{
    const int at = in_blocks ? value : value * dtype_bytes(kv->dtype);
    if (at % CACHE_LINE == 0 && token < next->count)
        __builtin_prefetch(kv->values + next->places[token] + at, 0, PREFETCH_LOCALITY);
}

/* Write a panel of values; `tokens` is a multiple of GROUP. */
INLINE void lay_floats(char *to, const Cached *kv, const KvTile *kv_tile, int tokens, int value,
                              const KvTile *next, const int in_blocks)
{
    for (int i = 0; i < tokens; i++) {
        fetch_value(kv, next, i, value, in_blocks);
        const char *head = head_at(kv->values, kv_tile->places[i], 0);
        lanes_store((float *)to + i * LANES, floats_at(head, value, kv->head_dim, in_blocks));
    }
}

/* Lay tokens [first, end) of a panel; both are even. */
INLINE void lay_pairs(char *to, const Cached *kv, const KvTile *kv_tile, int first, int end, int value,
                      const KvTile *next, const int in_blocks, const int is_full)
{
    for (int i = first; i < end; i += 2) {
        fetch_value(kv, next, i, value, in_blocks);
        fetch_value(kv, next, i + 1, value, in_blocks);
        const char *even = head_at(kv->values, kv_tile->places[i], is_full);
        const char *odd = head_at(kv->values, kv_tile->places[i + 1], is_full);
        const WordLanes both = halves_at(even, value, kv->head_dim, in_blocks, is_full)
                               | halves_at(odd, value, kv->head_dim, in_blocks, is_full) << 16;
        memcpy(to + i / 2 * sizeof both, &both, sizeof both);
    }
}

INLINE void lay_panel(char *to, const Cached *kv, const KvTile *kv_tile, int tokens, int value,
                             const KvTile *next, const int in_blocks)
{
    const int num_full = in_blocks || value + LANES > kv->head_dim ? 0 : kv_tile->count / 2 * 2;
    if (kv->dtype == F32) {
        lay_floats(to, kv, kv_tile, tokens, value, next, in_blocks);
        return;
    }
    lay_pairs(to, kv, kv_tile, 0, num_full, value, next, in_blocks, 1);
    lay_pairs(to, kv, kv_tile, num_full, tokens, value, next, in_blocks, 0);
}

Matrix kv_tile_values(void *memory, const Cached *kv, const KvTile *kv_tile, const KvTile *next)
{
    const Cached own = *kv;
    const int width = own.head_dim, padded = round_up(kv_tile->count, GROUP);
    for (int value = 0; value < width; value += PANEL) {
        char *panel = (char *)memory + (size_t)value * padded * dtype_bytes(own.dtype);
        if (own.kv_dtype == Q8_0)
            lay_panel(panel, &own, kv_tile, padded, value, next, 1);
        else
            lay_panel(panel, &own, kv_tile, padded, value, next, 0);
    }
    return (Matrix){own.dtype, round_up(width, PANEL), kv_tile->count, padded, memory, NULL, NULL};
}
