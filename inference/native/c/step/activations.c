/* Activations in several kinds, one after the other in memory. */
#include "step/activations.h"

size_t activations_bytes(unsigned kinds, int rows, int inputs)
{
    size_t bytes = 0;
    for (int kind = 0; kind < KINDS; kind++)
        if (kinds >> kind & 1)
            bytes += inputs_bytes(kind, rows, inputs);
    return bytes;
}

Activations activations_at(void *memory, unsigned kinds, int rows, int inputs)
{
    Activations activations = {.kinds = kinds};
    char *at = memory;
    for (int kind = 0; kind < KINDS; kind++) {
        if (!(kinds >> kind & 1))
            continue;
        activations.inputs[kind] = inputs_at(at, kind, rows, inputs);
        at += inputs_bytes(kind, rows, inputs);
    }
    return activations;
}

void activations_write(const Activations *to, int row, int first, const float *from, int count)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (to->kinds >> kind & 1)
            inputs_write_part(&to->inputs[kind], row, first, from, count);
}
