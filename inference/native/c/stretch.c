/* Keys are turned, a square of words at a time; values of two tokens are laid side by side. Both become panels
 * as matrix.h has them, with zeros behind the last token and behind the last value of a head. */
#include "stretch.h"

#include <string.h>

#include "lanes.h"

enum { SIDE = 8, WORD = 4, LINE_BYTES = 64 };    /* words of a square's side; a word is a float or two bfloat16 */

typedef uint32_t Words __attribute__((vector_size(SIDE * WORD)));

static int padded_to(int count, int to)
{
    return (count + to - 1) / to * to;
}

static int size_of(int form)
{
    return form == F32 ? 4 : 2;
}

size_t stretch_bytes(int form, int head)
{
    const size_t keys = matrix_bytes(form, STRETCH, head), values = matrix_bytes(form, head, STRETCH);
    return keys > values ? keys : values;
}

Stretch stretch_found(const Cached *of, int first, int count)
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

/* Tokens [first, end) of keys or of values. */
static inline void fetch(const Cached *of, const char *data, const Stretch *stretch, int first, int end)
{
    const int bytes = of->head * size_of(of->form);
    for (int i = first; i < end && i < stretch->count; i++)
        for (int at = 0; at < bytes; at += LINE_BYTES)
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

/* Words of a head from byte `at` on, zeros where it has ended. */
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

/* Rows i and i + step trade the words that are on the wrong side of a square of 2 × step. */
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

/* Half a panel: SIDE tokens, all words of the head. */
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
    const int size = size_of(of->form), padded = padded_to(of->head, GROUP);
    const int outputs = padded_to(stretch->count, PANEL);
    for (int token = 0; token < outputs; token += SIDE) {
        char *panel = (char *)memory + (size_t)(token / PANEL) * PANEL * padded * size;
        fetch(of, of->keys, next, token, token + SIDE);
        turn_heads(panel + token % PANEL * WORD, of->keys, stretch->places + token, of->head * size, padded * size);
    }
    return (Matrix){of->form, outputs, of->head, padded, memory, NULL, NULL};
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

/* The line of a token's values that begins with this byte, if one does. */
static inline void fetch_value(const char *values, const Stretch *next, int token, int at)
{
    if (at % LINE_BYTES == 0 && token < next->count)
        __builtin_prefetch(values + next->places[token] + at);
}

/* A panel of values, of tokens that are a multiple of GROUP. */
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
    const int width = of->head, padded = padded_to(stretch->count, GROUP);
    for (int value = 0; value < width; value += PANEL) {
        char *panel = (char *)memory + (size_t)value * padded * size_of(of->form);
        if (of->form == F32)
            lay_floats(panel, of->values, stretch, padded, value, width, next);
        else
            lay_pairs(panel, of->values, stretch, padded, value, width, next);
    }
    return (Matrix){of->form, padded_to(width, PANEL), stretch->count, padded, memory, NULL, NULL};
}
