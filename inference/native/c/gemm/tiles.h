/* AMX: eight tile registers of up to 16 rows × 64 bytes, and products of two of them.
 *
 * TILES_EMULATED: a slow emulation in plain C, to test multiply_amx.c on processors without AMX.
 */
#ifndef TILES_H
#define TILES_H

#include <stdint.h>

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64 };

/* The tile configuration, in the format of the instruction LDTILECFG. */
typedef struct Shapes {
    uint8_t palette, start, unused[14];
    uint16_t bytes[16];     /* per row */
    uint8_t rows[16];
} Shapes;

#ifndef TILES_EMULATED

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ask the kernel for permission: it saves tile registers only for processes that requested them. */
static inline int tiles_allowed(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };      /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* gcc does not know that these instructions read memory: make it complete all stores first. */
static inline const void *as_stored(const void *memory)
{
    __asm__ volatile("" : "+r"(memory) : : "memory");
    return memory;
}

/* Macros, because a tile's number is encoded in the instruction. */
#define tiles_shape(shapes) _tile_loadconfig(as_stored(shapes))
#define tiles_release() _tile_release()
#define tile_zero(tile) _tile_zero(tile)
#define tile_load(tile, from, stride) _tile_loadd(tile, as_stored(from), stride)
#define tile_store(tile, to, stride) _tile_stored(tile, to, stride)
#define tile_add_pairs(sum, rows, weights) _tile_dpbf16ps(sum, rows, weights)
#define tile_add_quads(sum, rows, weights) _tile_dpbsud(sum, rows, weights)

#else

#include "simd/bfloat.h"

static _Thread_local struct {
    Shapes shapes;
    uint8_t data[TILES][TILE_ROWS][TILE_BYTES];
} tiles;

static inline int tiles_allowed(void)
{
    return 1;
}

static inline void tiles_shape(const Shapes *shapes)
{
    memset(&tiles, 0, sizeof tiles);
    tiles.shapes = *shapes;
}

static inline void tiles_release(void)
{
}

static inline void tile_zero(int tile)
{
    memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
}

static inline void tile_load(int tile, const void *from, ptrdiff_t stride)
{
    tile_zero(tile);
    for (int row = 0; row < tiles.shapes.rows[tile]; row++)
        memcpy(tiles.data[tile][row], (const char *)from + row * stride, tiles.shapes.bytes[tile]);
}

static inline void tile_store(int tile, void *to, ptrdiff_t stride)
{
    for (int row = 0; row < tiles.shapes.rows[tile]; row++)
        memcpy((char *)to + row * stride, tiles.data[tile][row], tiles.shapes.bytes[tile]);
}

/* Sum the first of all pairs and the second of all pairs, then add both, in the order of TDPBF16PS. */
static inline void tile_add_pairs(int sum, int rows, int weights)
{
    for (int m = 0; m < tiles.shapes.rows[sum]; m++) {
        float *to = (float *)tiles.data[sum][m];
        const uint16_t *row = (const uint16_t *)tiles.data[rows][m];
        for (int n = 0; n < TILE_BYTES / 4; n++) {
            float pair_sums[2] = {0, 0};
            for (int k = 0; k < tiles.shapes.bytes[rows] / 2; k++) {
                const uint16_t *weight = (const uint16_t *)tiles.data[weights][k / 2];
                pair_sums[k % 2] += bfloat_read(row[k]) * bfloat_read(weight[2 * n + k % 2]);
            }
            to[n] += pair_sums[0] + pair_sums[1];
        }
    }
}

/* Signed bytes of rows × unsigned bytes of weights (TDPBSUD). */
static inline void tile_add_quads(int sum, int rows, int weights)
{
    for (int m = 0; m < tiles.shapes.rows[sum]; m++) {
        int32_t *to = (int32_t *)tiles.data[sum][m];
        const int8_t *row = (const int8_t *)tiles.data[rows][m];
        for (int n = 0; n < TILE_BYTES / 4; n++)
            for (int k = 0; k < tiles.shapes.bytes[rows]; k++)
                to[n] += row[k] * tiles.data[weights][k / 4][4 * n + k % 4];
    }
}

#endif

#endif
