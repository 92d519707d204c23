/* Keys are turned, a square of words at a time; values of two tokens are laid side by side. Both become panels
 * as matrix.h has them, with zeros behind the last token and behind the last value of a head. */
#include "stretch.h"

#include <string.h>

#include "lanes.h"

enum { SIDE = 8, WORD = 4 };    /* words of a square's side; a word is a float or two bfloat16 */

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

/* Where a head of each token stands; null behind the last. */
static void find(const char *places[STRETCH], const Cached *of, int first, int count)
{
    for (int i = 0; i < count; i++) {
        const int token = first + i;
        const int64_t slot = of->pages[token / of->page] * of->page + token % of->page;
        places[i] = of->data + slot * of->token_bytes;
    }
    for (int i = count; i < STRETCH; i++)
        places[i] = NULL;
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
static void turn_heads(char *to, const char *const heads[SIDE], int bytes, int padded_bytes)
{
    for (int at = 0; at < padded_bytes; at += sizeof(Words)) {
        Words square[SIDE];
        for (int i = 0; i < SIDE; i++)
            square[i] = words_at(heads[i], at, bytes);
        turn(square);
        for (int i = 0; i < SIDE; i++)
            memcpy(to + (at / WORD + i) * PANEL * WORD, &square[i], sizeof(Words));
    }
}

Matrix stretch_keys(void *memory, const Cached *keys, int first, int count)
{
    const char *places[STRETCH];
    const int size = size_of(keys->form), padded = padded_to(keys->head, GROUP), outputs = padded_to(count, PANEL);
    find(places, keys, first, count);
    for (int token = 0; token < outputs; token += SIDE) {
        char *panel = (char *)memory + (size_t)(token / PANEL) * PANEL * padded * size;
        turn_heads(panel + token % PANEL * WORD, places + token, keys->head * size, padded * size);
    }
    return (Matrix){keys->form, outputs, keys->head, padded, memory, NULL, NULL};
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

/* A panel of values, of tokens that are a multiple of GROUP. */
static void lay_floats(char *to, const char *const *heads, int tokens, int value, int width)
{
    for (int i = 0; i < tokens; i++)
        lanes_store((float *)to + i * LANES, floats_at(heads[i], value, width));
}

static void lay_pairs(char *to, const char *const *heads, int tokens, int value, int width)
{
    for (int i = 0; i < tokens; i += 2) {
        const WordLanes first = halves_at(heads[i], value, width), second = halves_at(heads[i + 1], value, width);
        const WordLanes both = first | second << 16;
        memcpy(to + i / 2 * sizeof both, &both, sizeof both);
    }
}

Matrix stretch_values(void *memory, const Cached *values, int first, int count)
{
    const char *places[STRETCH];
    const int width = values->head, padded = padded_to(count, GROUP);
    find(places, values, first, count);
    for (int value = 0; value < width; value += PANEL) {
        char *panel = (char *)memory + (size_t)value * padded * size_of(values->form);
        if (values->form == F32)
            lay_floats(panel, places, padded, value, width);
        else
            lay_pairs(panel, places, padded, value, width);
    }
    return (Matrix){values->form, padded_to(width, PANEL), count, padded, memory, NULL, NULL};
}
