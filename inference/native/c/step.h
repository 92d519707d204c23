/* One step of a Llama-like model over keys and values in pages: rows of unequal length, parts of prompts and
 * single tokens mixed, in one call. */
#ifndef STEP_H
#define STEP_H

#include "matrix.h"

enum Activation { SILU, GELU_TANH, GELU };

/* A layer. Norms are what the normalised is multiplied with, as floats; null where the model has none there:
 *
 *   x += after_attention(output(attention(before_attention(x))))
 *   x += after_mlp(down(activation(gate(n)) * up(n))),  n = before_mlp(x)
 */
typedef struct Layer {
    Matrix query, key, value, output, gate, up, down;
    const float *before_attention, *after_attention, *before_mlp, *after_mlp;   /* (hidden,) */
    const float *query_norm, *key_norm;     /* (head,): of each head, before positions */
    const float *cos, *sin;                 /* (positions, rotary / 2); null: no positions */
    int32_t window;                         /* tokens seen, the own one included; 0: all */
    int32_t unused;
    void *keys, *values;                    /* (pages + 1, page, groups, head) */
} Layer;

typedef struct Model {
    int32_t layers, hidden, heads, groups, head, rotary;    /* groups: heads of keys; head: its width */
    int32_t activation, form, page, threads;                /* form: F32 or BF16, of keys, values and logits */
    float epsilon, scale, embedding_scale, score_cap, logit_cap;    /* caps: 0 is none */
    float residual_scale;                   /* what is added to x is multiplied with it; 1 mostly */
    Matrix embedding, head_matrix;
    const float *last_norm;
    Layer *layer;
} Model;

/* R rows take T tokens: row r those [starts[r], starts[r + 1]), the last of lengths[r] that it holds, whose
 * pages are pages[tables[r]], pages[tables[r] + 1], …. */
typedef struct Step {
    int32_t tokens, rows, wanted, unused;
    const int64_t *ids, *positions, *slots;     /* (T,); slot: page × size + place in the page */
    const int64_t *starts, *lengths, *tables;   /* (R + 1,), (R,), (R,) */
    const int64_t *pages;
    const int64_t *want;                        /* (wanted,): tokens whose logits are wanted, ascending */
    void *logits;                               /* (wanted, outputs of head_matrix) in the model's form */
    void *memory;                               /* step_bytes of it, 64-byte aligned */
} Step;

size_t step_bytes(const Model *model, const Step *step);
void step_run(const Model *model, const Step *step);

#endif
