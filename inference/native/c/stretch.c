/* Keys are transposed, a square of words at a time. Values stay in rows; in bfloat16, the values of two tokens are
 * interleaved. Both become panels (see matrix.h), padded with zeros. */
#include "stretch.h"

#include <string.h>

#include "lanes.h"
#include "rounding.h"

enum { SIDE = 8, WORD = 4, CACHE_LINE = 64 };    /* words on a square's side; a word is one float or two bfloat16 */

typedef uint32_t Words __attribute__((vector_size(SIDE * WORD)));

size_t stretch_bytes(int dtype, int head_dim)
{
    const size_t keys = matrix_bytes(dtype, STRETCH, head_dim), values = matrix_bytes(dtype, head_dim, STRETCH);
    return keys > values ? keys : values;
}

Stretch stretch_find(const Cached *of, int first, int count)
{
    Stretch stretch = {.count = count};
    const int64_t *page = of->pages + first / of->page;
    for (int i = 0, at = first % of->page; i < count; at = 0, page++)
        for (; at < of->page && i < count; at++, i++)
            stretch.places[i] = (*page * of->page + at) * (ptrdiff_t)of->token_bytes;
    for (int i = count; i < STRETCH; i++)
        stretch.places[i] = NONE;
    return stretch;
}

/* Prefetch tokens [first, end) of the keys or the values. */
static inline void fetch(const Cached *of, const char *data, const Stretch *stretch, int first, int end)
{
    const int bytes = of->head_dim * dtype_bytes(of->dtype);
    for (int i = first; i < end && i < stretch->count; i++)
        for (int at = 0; at < bytes; at += CACHE_LINE)
            __builtin_prefetch(data + stretch->places[i] + at);
}

void stretch_fetch(const Cached *of, const Stretch *stretch)
{
    fetch(of, of->keys, stretch, 0, stretch->count);
    fetch(of, of->values, stretch, 0, stretch->count);
}

static inline const char *head_at(const char *data, ptrdiff_t place)
{
    return place == NONE ? NULL : data + place;
}

/* Words of a head from byte `at` on, padded with zeros. */
static inline Words words_at(const char *head, int at, int bytes)
{
    Words words = {0};
    if (!head || at >= bytes)
        return words;
    if (at + (int)sizeof words <= bytes)
        memcpy(&words, head + at, sizeof words);
    else
        memcpy(&words, head + at, bytes - at);
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
static void turn_heads(char *to, const char *keys, const ptrdiff_t places[SIDE], int bytes, int padded_bytes)
{
    for (int at = 0; at < padded_bytes; at += sizeof(Words)) {
        Words square[SIDE];
        for (int i = 0; i < SIDE; i++)
            square[i] = words_at(head_at(keys, places[i]), at, bytes);
        turn(square);
        for (int i = 0; i < SIDE; i++)
            memcpy(to + (at / WORD + i) * PANEL * WORD, &square[i], sizeof(Words));
    }
}

Matrix stretch_keys(void *memory, const Cached *of, const Stretch *stretch, const Stretch *next)
{
    const int size = dtype_bytes(of->dtype), padded = round_up(of->head_dim, GROUP);
    const int outputs = round_up(stretch->count, PANEL);
    for (int token = 0; token < outputs; token += SIDE) {
        char *panel = (char *)memory + (size_t)(token / PANEL) * PANEL * padded * size;
        fetch(of, of->keys, next, token, token + SIDE);
        turn_heads(panel + token % PANEL * WORD, of->keys, stretch->places + token, of->head_dim * size, padded * size);
    }
    return (Matrix){of->dtype, outputs, of->head_dim, padded, memory, NULL, NULL};
}

static inline Lanes floats_at(const char *head, int value, int width)
{
    Lanes lanes = {0};
    if (head)
        lanes = lanes_load_part((const float *)head + value, width - value);
    return lanes;
}

static inline WordLanes halves_at(const char *head, int value, int width)
{
    HalfLanes halves = {0};
    if (head && value + LANES <= width)
        memcpy(&halves, head + 2 * value, sizeof halves);
    else if (head)
        memcpy(&halves, head + 2 * value, 2 * (width - value));
    return __builtin_convertvector(halves, WordLanes);
}

/* Prefetch the cache line of the token's values that begins at byte `at`, if one does. */
static inline void fetch_value(const char *values, const Stretch *next, int token, int at)
{
    if (at % CACHE_LINE == 0 && token < next->count)
        __builtin_prefetch(values + next->places[token] + at);
}

/* Write a panel of values; `tokens` is a multiple of GROUP. */
static void lay_floats(char *to, const char *values, const Stretch *stretch, int tokens, int value, int width,
                       const Stretch *next)
{
    for (int i = 0; i < tokens; i++) {
        fetch_value(values, next, i, value * sizeof(float));
        lanes_store((float *)to + i * LANES, floats_at(head_at(values, stretch->places[i]), value, width));
    }
}

static void lay_pairs(char *to, const char *values, const Stretch *stretch, int tokens, int value, int width,
                      const Stretch *next)
{
    for (int i = 0; i < tokens; i += 2) {
        fetch_value(values, next, i, value * sizeof(uint16_t));
        fetch_value(values, next, i + 1, value * sizeof(uint16_t));
        const WordLanes first = halves_at(head_at(values, stretch->places[i]), value, width);
        const WordLanes second = halves_at(head_at(values, stretch->places[i + 1]), value, width);
        const WordLanes both = first | second << 16;
        memcpy(to + i / 2 * sizeof both, &both, sizeof both);
    }
}

Matrix stretch_values(void *memory, const Cached *of, const Stretch *stretch, const Stretch *next)
{
    const int width = of->head_dim, padded = round_up(stretch->count, GROUP);
    for (int value = 0; value < width; value += PANEL) {
        char *panel = (char *)memory + (size_t)value * padded * dtype_bytes(of->dtype);
        if (of->dtype == F32)
            lay_floats(panel, of->values, stretch, padded, value, width, next);
        else
            lay_pairs(panel, of->values, stretch, padded, value, width, next);
    }
    return (Matrix){of->dtype, round_up(width, PANEL), stretch->count, padded, memory, NULL, NULL};
}
