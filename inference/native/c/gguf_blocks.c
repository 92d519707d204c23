/* The blocks of GGUF tensors: their layouts (ggml-common.h), where they have the codes, and their scales. */
#include "gguf_blocks.h"

#include <string.h>

#include "gguf_layout.h"

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

static int nibble(uint8_t both, int upper)
{
    return upper ? both >> 4 : both & 15;
}

/* Of a block of one group: the first half is in the low nibbles. */
static int low_first(const uint8_t codes[HALF], int k)
{
    return nibble(codes[k % HALF], k / HALF);
}

/* Of a block of the K formats: two groups share their bytes. */
static int in_pairs(const uint8_t codes[CODES / 2], int g, int k)
{
    return nibble(codes[g / 2 * GROUP + k], g % 2);
}

/* Two bits of a block of the K formats: four groups share their bytes. */
static int in_fours(const uint8_t codes[CODES / 4], int g, int k)
{
    return codes[g / 4 * GROUP + k] >> g % 4 * 2 & 3;
}

static int bit(const uint8_t *bits, int number)
{
    return bits[number / 8] >> number % 8 & 1;
}

static int code_q3_k(const BlockQ3K *block, int g, int k)
{
    return in_fours(block->codes, g, k) | (block->third_bits[k] >> g & 1) << 2;
}

static int code_q5_k(const BlockQ5K *block, int g, int k)
{
    return in_pairs(block->codes, g, k) | (block->fifth_bits[k] >> g & 1) << 4;
}

static int code_q6_k(const BlockQ6K *block, int g, int k)
{
    const int low = nibble(block->low[g / 4 * 2 * GROUP + g % 2 * GROUP + k], g / 2 % 2);
    return low | in_fours(block->high, g, k) << 4;
}

int gguf_code(int dtype, const void *block, int g, int k)
{
    const BlockQ5 *five = block;
    const BlockQ51 *five_with_min = block;
    switch (dtype) {
    case Q8_0: return ((const BlockQ8 *)block)->codes[k] + ZERO[Q8_0];
    case Q4_1: return low_first(((const BlockQ41 *)block)->codes, k);
    case Q5_0: return low_first(five->codes, k) | bit(five->fifth_bits, k) << 4;
    case Q5_1: return low_first(five_with_min->codes, k) | bit(five_with_min->fifth_bits, k) << 4;
    case Q2_K: return in_fours(((const BlockQ2K *)block)->codes, g, k);
    case Q3_K: return code_q3_k(block, g, k);
    case Q4_K: return in_pairs(((const BlockQ4K *)block)->codes, g, k);
    case Q5_K: return code_q5_k(block, g, k);
    case Q6_K: return code_q6_k(block, g, k);
    case IQ4_XS: return low_first(((const BlockIQ4XS *)block)->codes + g * HALF, k);
    case MXFP4: return low_first(((const BlockMXFP4 *)block)->codes, k);
    default: return low_first(((const BlockQ4 *)block)->codes, k);
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
