/* Packs the blocks of GGUF tensors into panels, one group of a panel at a time, and reads single values back. */
#include "gguf.h"

#include <string.h>

#include "half.h"
#include "rounding.h"
#include "team.h"

enum { HALF = GROUP / 2, QUAD = 4, LINE_BYTES = PANEL * QUAD, HIGH_BYTES = HALF * PANEL };    /* of the nibbles */

/* Blocks as in ggml-common.h. */
typedef struct { uint16_t scale; int8_t codes[GROUP]; } BlockQ8;
typedef struct { uint16_t scale; uint8_t codes[HALF]; } BlockQ4;
typedef struct { uint16_t scale, min; uint8_t six_bits[SIX_BITS], codes[SUPER_GROUPS * HALF]; } BlockQ4K;
typedef struct {
    uint8_t low[SUPER_GROUPS * HALF], high[SUPER_GROUPS * GROUP / 4];
    int8_t halves[2 * SUPER_GROUPS];
    uint16_t scale;
} BlockQ6K;

static const size_t BLOCK_BYTES[] = {
    [Q8_0] = sizeof(BlockQ8), [Q4_0] = sizeof(BlockQ4), [Q4_K] = sizeof(BlockQ4K), [Q6_K] = sizeof(BlockQ6K),
};
static const int BLOCK_GROUPS[] = {[Q8_0] = 1, [Q4_0] = 1, [Q4_K] = SUPER_GROUPS, [Q6_K] = SUPER_GROUPS};
static const int GROUP_BYTES[] = {[Q8_0] = TILE, [Q4_0] = TILE / 2, [Q4_K] = TILE / 2, [Q6_K] = TILE * 3 / 4};

static int nibble(uint8_t both, int upper)
{
    return upper ? both >> 4 : both & 15;
}

/* The code of input k of group g of a block of Q6_K: four groups share the bytes of `high`, and two those of `low`. */
static int code_q6_k(const BlockQ6K *block, int g, int k)
{
    const int low = nibble(block->low[g / 4 * 64 + g % 2 * GROUP + k], g / 2 % 2);
    return low | (block->high[g / 4 * GROUP + k] >> g % 4 * 2 & 3) << 4;
}

static int code_of(int dtype, const void *block, int g, int k)
{
    switch (dtype) {
    case Q8_0: return ((const BlockQ8 *)block)->codes[k] + INT8_ZERO;
    case Q4_0: return nibble(((const BlockQ4 *)block)->codes[k % HALF], k / HALF);
    case Q4_K: return nibble(((const BlockQ4K *)block)->codes[g / 2 * GROUP + k], g % 2);
    default: return code_q6_k(block, g, k);
    }
}

/* The byte of a group's lines that has input k of output n: of all 8 bits, or of the lower 4. */
static int byte_place(int k, int n)
{
    return (k / QUAD * PANEL + n) * QUAD + k % QUAD;
}

static void write_code(int dtype, uint8_t *group, int k, int n, int code)
{
    const int within = k % HALF, upper = k / HALF;
    if (dtype == Q8_0)
        group[byte_place(k, n)] = (uint8_t)code;
    else
        group[byte_place(within, n)] |= (uint8_t)((code & 15) << 4 * upper);
    if (dtype == Q6_K)
        group[HIGH_BYTES + upper * LINE_BYTES + n * QUAD + k % QUAD] |= (uint8_t)(code >> 4 << within / QUAD * 2);
}

static int read_code(int dtype, const uint8_t *group, int k, int n)
{
    const int within = k % HALF, upper = k / HALF;
    if (dtype == Q8_0)
        return group[byte_place(k, n)];
    const int low = nibble(group[byte_place(within, n)], upper);
    if (dtype != Q6_K)
        return low;
    return low | (group[HIGH_BYTES + upper * LINE_BYTES + n * QUAD + k % QUAD] >> within / QUAD * 2 & 3) << 4;
}

static void write_scales(int dtype, char *scales, int number, int n, const void *block)
{
    const BlockQ4K *four = block;
    const BlockQ6K *six = block;
    ScalesQ4K *fours = (ScalesQ4K *)scales + number;
    ScalesQ6K *sixes = (ScalesQ6K *)scales + number;
    switch (dtype) {
    case Q4_K:
        for (int i = 0; i < SIX_BITS; i++)
            fours->six_bits[i][n] = four->six_bits[i];
        fours->scale[n] = four->scale;
        fours->min[n] = four->min;
        break;
    case Q6_K:
        for (int i = 0; i < 2 * SUPER_GROUPS; i++)
            sixes->halves[i][n] = six->halves[i];
        sixes->scale[n] = six->scale;
        break;
    default: memcpy((uint16_t *)scales + number * PANEL + n, block, sizeof(uint16_t));
    }
}

static char *scales_at(const Matrix *of, int panel)
{
    return (char *)of->scales + panel * matrix_scale_bytes(of->dtype, PANEL, of->inputs);
}

static uint8_t *group_at(const Matrix *of, int panel, int group)
{
    return (uint8_t *)of->values + ((size_t)panel * (of->padded / GROUP) + group) * GROUP_BYTES[of->dtype];
}

typedef struct Packing {
    const Matrix *to;
    const uint8_t *blocks;
    const int64_t *order;
} Packing;

/* Pack block `number` of output n of a panel. */
static void pack_block(const Matrix *to, int panel, int n, int number, const void *block)
{
    const int groups = BLOCK_GROUPS[to->dtype];
    write_scales(to->dtype, scales_at(to, panel), number, n, block);
    for (int g = 0; g < groups; g++)
        for (int k = 0; k < GROUP; k++)
            write_code(to->dtype, group_at(to, panel, number * groups + g), k, n, code_of(to->dtype, block, g, k));
}

static void pack_panel(const Packing *of, int panel)
{
    const Matrix *to = of->to;
    const int blocks = to->padded / GROUP / BLOCK_GROUPS[to->dtype];
    const size_t bytes = BLOCK_BYTES[to->dtype];
    memset(group_at(to, panel, 0), 0, matrix_bytes(to->dtype, PANEL, to->inputs));
    memset(scales_at(to, panel), 0, matrix_scale_bytes(to->dtype, PANEL, to->inputs));
    for (int n = 0; n < PANEL && panel * PANEL + n < to->outputs; n++) {
        const uint8_t *row = of->blocks + of->order[panel * PANEL + n] * blocks * bytes;
        for (int number = 0; number < blocks; number++)
            pack_block(to, panel, n, number, row + number * bytes);
    }
}

static void pack_some(Team *team, int thread, void *of_packing)
{
    const Packing *of = of_packing;
    (void)thread;
    for (int panel; (panel = team_take(team, ceil_div(of->to->outputs, PANEL))) >= 0;)
        pack_panel(of, panel);
}

void gguf_pack(const Matrix *to, const uint8_t *blocks, const int64_t *order, int threads)
{
    Packing of = {to, blocks, order};
    team_run(threads, pack_some, &of);
}

/* Six-bit integer i of the scales, or of the minima if `min`: the last four have their upper bits in other bytes. */
static int six_bits_at(const ScalesQ4K *of, int i, int min, int n)
{
    if (i < 4)
        return of->six_bits[i + 4 * min][n] & 63;
    return nibble(of->six_bits[i + 4][n], min) | of->six_bits[i - 4 + 4 * min][n] >> 6 << 4;
}

/* A value is scale × (code - zero) - min. */
typedef struct Affine {
    float scale, min;
} Affine;

static const int ZERO_OF[] = {[Q8_0] = INT8_ZERO, [Q4_0] = INT4_ZERO, [Q4_K] = 0, [Q6_K] = Q6_ZERO};

/* Of output n in half a group. */
static Affine affine_of(const Matrix *of, int panel, int group, int half, int n)
{
    const char *scales = scales_at(of, panel);
    const int number = group / SUPER_GROUPS, g = group % SUPER_GROUPS;
    const ScalesQ4K *fours = (const ScalesQ4K *)scales + number;
    const ScalesQ6K *sixes = (const ScalesQ6K *)scales + number;
    switch (of->dtype) {
    case Q4_K:
        return (Affine){half_read(fours->scale[n]) * six_bits_at(fours, g, 0, n),
                        half_read(fours->min[n]) * six_bits_at(fours, g, 1, n)};
    case Q6_K: return (Affine){half_read(sixes->scale[n]) * sixes->halves[2 * g + half][n], 0};
    default: return (Affine){half_read(((const uint16_t *)scales)[group * PANEL + n]), 0};
    }
}

static inline float value_of(int dtype, const uint8_t *group, int k, int n, Affine affine)
{
    return affine.scale * (read_code(dtype, group, k, n) - ZERO_OF[dtype]) - affine.min;
}

float gguf_value(const Matrix *of, int panel, int k, int n)
{
    const int group = k / GROUP, within = k % GROUP;
    const Affine affine = affine_of(of, panel, group, within / HALF, n);
    return value_of(of->dtype, group_at(of, panel, group), within, n, affine);
}

static inline __attribute__((always_inline)) void read_half(Tile tile, const Matrix *of, int panel, int group, int half,
                                                            const int dtype)
{
    const uint8_t *codes = group_at(of, panel, group);
    Affine affine[PANEL];
    for (int n = 0; n < PANEL; n++)
        affine[n] = affine_of(of, panel, group, half, n);
    for (int k = half * HALF; k < (half + 1) * HALF; k++)
        for (int n = 0; n < PANEL; n++)
            tile[k][n] = value_of(dtype, codes, k, n, affine[n]);
}

void gguf_tile(Tile tile, const Matrix *of, int panel, int group)
{
    for (int half = 0; half < 2; half++)
        switch (of->dtype) {
        case Q8_0: read_half(tile, of, panel, group, half, Q8_0); break;
        case Q4_0: read_half(tile, of, panel, group, half, Q4_0); break;
        case Q4_K: read_half(tile, of, panel, group, half, Q4_K); break;
        default: read_half(tile, of, panel, group, half, Q6_K);
        }
}
