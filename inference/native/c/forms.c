/* Rows in several kinds, one behind the other in memory. */
#include "forms.h"

size_t forms_bytes(unsigned kinds, int rows, int inputs)
{
    size_t bytes = 0;
    for (int kind = 0; kind < KINDS; kind++)
        if (kinds >> kind & 1)
            bytes += inputs_bytes(kind, rows, inputs);
    return bytes;
}

Forms forms_at(void *memory, unsigned kinds, int rows, int inputs)
{
    Forms forms = {.kinds = kinds};
    char *at = memory;
    for (int kind = 0; kind < KINDS; kind++) {
        if (!(kinds >> kind & 1))
            continue;
        forms.of[kind] = inputs_at(at, kind, rows, inputs);
        at += inputs_bytes(kind, rows, inputs);
    }
    return forms;
}

void forms_write(const Forms *to, int row, int first, const float *from, int count)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (to->kinds >> kind & 1)
            inputs_write_part(&to->of[kind], row, first, from, count);
}
