/* The blocks of GGUF tensors: their layouts (ggml-common.h), their codes and scales. */
#include "packing/gguf_blocks.h"

#include <string.h>

#include "packing/gguf_layout.h"

enum { HALF = GROUP / 2, CODES = SUPER_GROUPS * GROUP };

typedef struct { uint16_t scale; int8_t codes[GROUP]; } BlockQ8;
typedef struct { uint16_t scale; uint8_t codes[HALF]; } BlockQ4;           /* and IQ4_NL */
typedef struct { uint16_t scale, min; uint8_t codes[HALF]; } BlockQ41;
typedef struct { uint16_t scale; uint8_t fifth_bits[GROUP / 8], codes[HALF]; } BlockQ5;
typedef struct { uint16_t scale, min; uint8_t fifth_bits[GROUP / 8], codes[HALF]; } BlockQ51;
typedef struct { uint8_t nibbles[2 * SUPER_GROUPS], codes[CODES / 4]; uint16_t scale, min; } BlockQ2K;
typedef struct { uint8_t third_bits[GROUP], codes[CODES / 4], six_bits[12]; uint16_t scale; } BlockQ3K;
typedef struct { uint16_t scale, min; uint8_t six_bits[12], codes[CODES / 2]; } BlockQ4K;
typedef struct { uint16_t scale, min; uint8_t six_bits[12], fifth_bits[GROUP], codes[CODES / 2]; } BlockQ5K;
typedef struct { uint8_t low[CODES / 2], high[CODES / 4]; int8_t halves[2 * SUPER_GROUPS]; uint16_t scale; } BlockQ6K;
typedef struct { uint16_t scale; uint8_t high[2], low[SUPER_GROUPS / 2], codes[CODES / 2]; } BlockIQ4XS;
typedef struct { uint8_t exponent, codes[HALF]; } BlockMXFP4;

size_t gguf_block_bytes(int dtype)
{
    static const size_t BYTES[] = {
        [Q8_0] = sizeof(BlockQ8), [Q4_0] = sizeof(BlockQ4), [Q4_1] = sizeof(BlockQ41), [Q5_0] = sizeof(BlockQ5),
        [Q5_1] = sizeof(BlockQ51), [Q2_K] = sizeof(BlockQ2K), [Q3_K] = sizeof(BlockQ3K), [Q4_K] = sizeof(BlockQ4K),
        [Q5_K] = sizeof(BlockQ5K), [Q6_K] = sizeof(BlockQ6K), [IQ4_NL] = sizeof(BlockQ4),
        [IQ4_XS] = sizeof(BlockIQ4XS), [MXFP4] = sizeof(BlockMXFP4),
    };
    return BYTES[dtype];
}

/* Of a block of one group: the first half is in the low nibbles. */
static void low_first(uint8_t to[GROUP], const uint8_t codes[HALF])
{
    for (int k = 0; k < HALF; k++) {
        to[k] = codes[k] & 15;
        to[HALF + k] = codes[k] >> 4;
    }
}

/* Of a block of the K formats: two groups share their bytes. */
static void in_pairs(uint8_t to[GROUP], const uint8_t codes[GROUP], int second)
{
    for (int k = 0; k < GROUP; k++)
        to[k] = second ? codes[k] >> 4 : codes[k] & 15;
}

/* Add bits `up` and the next from two bits of a block of the K formats: four groups share their bytes. */
static void add_in_fours(uint8_t to[GROUP], int up, const uint8_t codes[CODES / 4], int g)
{
    for (int k = 0; k < GROUP; k++)
        to[k] |= (codes[g / 4 * GROUP + k] >> g % 4 * 2 & 3) << up;
}

/* Add bit `up` from the bits of a block of one group. */
static void add_bits(uint8_t to[GROUP], int up, const uint8_t bits[GROUP / 8])
{
    for (int k = 0; k < GROUP; k++)
        to[k] |= (bits[k / 8] >> k % 8 & 1) << up;
}

/* Add bit `up` from bit g of the bytes of a block of the K formats. */
static void add_bit_of_group(uint8_t to[GROUP], int up, const uint8_t bits[GROUP], int g)
{
    for (int k = 0; k < GROUP; k++)
        to[k] |= (bits[k] >> g & 1) << up;
}

static void codes_q8_0(uint8_t to[GROUP], const BlockQ8 *block)
{
    for (int k = 0; k < GROUP; k++)
        to[k] = (uint8_t)(block->codes[k] + ZERO[Q8_0]);
}

static void codes_q5_0(uint8_t to[GROUP], const BlockQ5 *block)
{
    low_first(to, block->codes);
    add_bits(to, 4, block->fifth_bits);
}

static void codes_q5_1(uint8_t to[GROUP], const BlockQ51 *block)
{
    low_first(to, block->codes);
    add_bits(to, 4, block->fifth_bits);
}

static void codes_q2_k(uint8_t to[GROUP], const BlockQ2K *block, int g)
{
    memset(to, 0, GROUP);
    add_in_fours(to, 0, block->codes, g);
}

static void codes_q3_k(uint8_t to[GROUP], const BlockQ3K *block, int g)
{
    memset(to, 0, GROUP);
    add_in_fours(to, 0, block->codes, g);
    add_bit_of_group(to, 2, block->third_bits, g);
}

static void codes_q4_k(uint8_t to[GROUP], const BlockQ4K *block, int g)
{
    in_pairs(to, block->codes + g / 2 * GROUP, g % 2);
}

static void codes_q5_k(uint8_t to[GROUP], const BlockQ5K *block, int g)
{
    in_pairs(to, block->codes + g / 2 * GROUP, g % 2);
    add_bit_of_group(to, 4, block->fifth_bits, g);
}

static void codes_q6_k(uint8_t to[GROUP], const BlockQ6K *block, int g)
{
    in_pairs(to, block->low + (g / 4 * 2 + g % 2) * GROUP, g / 2 % 2);
    add_in_fours(to, 4, block->high, g);
}

void gguf_codes(uint8_t to[GROUP], int dtype, const void *block, int g)
{
    switch (dtype) {
    case Q8_0: codes_q8_0(to, block); break;
    case Q4_1: low_first(to, ((const BlockQ41 *)block)->codes); break;
    case Q5_0: codes_q5_0(to, block); break;
    case Q5_1: codes_q5_1(to, block); break;
    case Q2_K: codes_q2_k(to, block, g); break;
    case Q3_K: codes_q3_k(to, block, g); break;
    case Q4_K: codes_q4_k(to, block, g); break;
    case Q5_K: codes_q5_k(to, block, g); break;
    case Q6_K: codes_q6_k(to, block, g); break;
    case IQ4_XS: low_first(to, ((const BlockIQ4XS *)block)->codes + g * HALF); break;
    case MXFP4: low_first(to, ((const BlockMXFP4 *)block)->codes); break;
    default: low_first(to, ((const BlockQ4 *)block)->codes);
    }
}

/* Write `count` bytes of output n, a panel apart. */
static void spread(uint8_t to[][PANEL], int n, const void *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i][n] = ((const uint8_t *)from)[i];
}

static void write_q2_k(ScalesQ2K *to, int n, const BlockQ2K *block)
{
    spread(to->nibbles, n, block->nibbles, sizeof block->nibbles);
    to->scale[n] = block->scale;
    to->min[n] = block->min;
}

static void write_q3_k(ScalesQ3K *to, int n, const BlockQ3K *block)
{
    spread(to->six_bits, n, block->six_bits, sizeof block->six_bits);
    to->scale[n] = block->scale;
}

/* And Q5_K, whose blocks begin alike. */
static void write_q4_k(ScalesQ4K *to, int n, const BlockQ4K *block)
{
    spread(to->six_bits, n, block->six_bits, sizeof block->six_bits);
    to->scale[n] = block->scale;
    to->min[n] = block->min;
}

static void write_q6_k(ScalesQ6K *to, int n, const BlockQ6K *block)
{
    spread((uint8_t (*)[PANEL])to->halves, n, block->halves, sizeof block->halves);
    to->scale[n] = block->scale;
}

static void write_iq4_xs(ScalesIQ4XS *to, int n, const BlockIQ4XS *block)
{
    spread(to->high, n, block->high, sizeof block->high);
    spread(to->low, n, block->low, sizeof block->low);
    to->scale[n] = block->scale;
}

/* And Q5_1, whose blocks begin alike. */
static void write_q4_1(ScalesAndMinima *to, int n, const BlockQ41 *block)
{
    enum { SIGN = 0x8000 };
    to->scale[n] = block->scale;
    to->min[n] = block->min ^ SIGN;
}

void gguf_write_scales(int dtype, void *to, int n, const void *block)
{
    switch (dtype) {
    case Q4_1: case Q5_1: write_q4_1(to, n, block); break;
    case Q2_K: write_q2_k(to, n, block); break;
    case Q3_K: write_q3_k(to, n, block); break;
    case Q4_K: case Q5_K: write_q4_k(to, n, block); break;
    case Q6_K: write_q6_k(to, n, block); break;
    case IQ4_XS: write_iq4_xs(to, n, block); break;
    case MXFP4: ((ScalesMXFP4 *)to)->exponent[n] = ((const BlockMXFP4 *)block)->exponent; break;
    default: memcpy(((ScalesOnly *)to)->scale + n, block, sizeof(uint16_t));
    }
}
