/* The integers of weights, as bytes of vectors. */
#ifndef CODES_H
#define CODES_H

#include "gemm/block.h"
#include "packing/gguf_scales.h"

/* The groups or half groups whose weights share a scale. */
ALWAYS int scales_per_group(const int kind)
{
    return has_half_scales(kind) ? 2 : 1;
}

/* The unsigned integers of quad q of a group whose lines begin at `group`. */
ALWAYS Words codes_of(const char *group, const int kind, const int q)
{
    const int bits = BITS[kind];
    Words codes = words_none();
    int up = 0;
    EACH(i, 4) {
        const int width = WIDEST_PLANE >> i;
        if (bits & width) {
            const Words line = words_load(group + (up + PLANE_LINE(width, q)) * LINE_BYTES);
            const Words plane = words_bits(line, PLANE_SHIFT(width, q), (1 << width) - 1);
            codes = words_join(codes, plane, up);
            up += width;
        }
    }
    return has_entries(kind) ? words_entries(entries_of(kind), codes) : codes;
}

#endif
