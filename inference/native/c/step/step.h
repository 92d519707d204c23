/* One step of a Llama-like decoder over a paged KV cache. One call computes rows of different lengths: chunks of
 * prompts and single decode tokens. */
#ifndef STEP_H
#define STEP_H

#include "packing/matrix.h"

enum Activation { SILU, GELU_TANH, GELU };

/* A decoder layer. Norms are the weights of RMS norms, as floats; null if the model has no norm in that place:
 *
 *   x += after_attention(output(attention(before_attention(x))))
 *   x += after_mlp(down(activation(gate(n)) * up(n))),  n = before_mlp(x)
 */
typedef struct Layer {
    Matrix query, key, value, output, gate, up, down;
    const float *before_attention, *after_attention, *before_mlp, *after_mlp;   /* (hidden,) */
    const float *query_norm, *key_norm;     /* (head_dim,): for each head, before the rotation */
    const float *cos, *sin;                 /* (positions, rotary / 2); null: no rotation */
    int32_t window;                         /* sliding window in tokens, with the query's own; 0: none */
    int32_t group;                          /* cache group, see Step */
    void *keys, *values;                    /* KV pool: (pages of the group, page, num_kv_heads, head_dim) of kv_dtype */
} Layer;

typedef struct Model {
    int32_t layers, hidden, num_heads, num_kv_heads, head_dim, rotary;
    int32_t activation, dtype, page, threads;               /* dtype: of logits and attention, F32 or BF16 */
    int32_t kv_dtype;                       /* of the KV cache: `dtype`, or Q8_0 for rows of blocks, see kv_block.h */
    float epsilon, scale, embedding_scale, attn_logit_softcap, final_logit_softcap;    /* caps: 0: none */
    float residual_scale;                   /* factor of what is added to x; usually 1 */
    Matrix embedding, lm_head;
    const float *final_norm;
    Layer *layer;
} Model;

/* What an adapter changes in the outputs of a matrix, before its bias: y = factor ∘ y + shift + (x aᵀ) bᵀ. */
typedef struct Delta {
    Matrix a;                               /* (rank, inputs), in the model's dtype */
    const void *b;                          /* panels of [rank][PANEL] values of this dtype; null: no a and b */
    const float *factor, *shift;            /* (outputs,), in whole panels; or null */
} Delta;

enum { QUERY_DELTA, KEY_DELTA, VALUE_DELTA, OUTPUT_DELTA, GATE_DELTA, UP_DELTA, DOWN_DELTA, DELTAS };

typedef struct LayerDeltas {
    Delta delta[DELTAS];
} LayerDeltas;

/* Tokens [first, end) of a step, rows [logits_first, logits_end) of its logits: they have this adapter. */
typedef struct AdapterSpan {
    int32_t first, end, logits_first, logits_end;
    const LayerDeltas *layers;              /* (layers of the model,) */
    const Delta *head;                      /* of lm_head, or null */
} AdapterSpan;

/* T tokens of R rows. Row r has the tokens [query_start_loc[r], query_start_loc[r + 1]): the last of its sequence,
 * which has seq_lens[r] tokens. In layers of cache group g, their keys and values are in pages[page_table[g × R + r]],
 * pages[page_table[g × R + r] + 1], … Pages behind a sliding window may be read: their values must be finite. */
typedef struct Step {
    int32_t tokens, rows, num_logits, num_outputs;
    int32_t num_spans, max_rank;                /* of spans; 0: no token has an adapter */
    const int64_t *ids, *positions;             /* (T,) */
    const int64_t *slot_mapping;                /* (groups, T): page number × page size + offset in the page */
    const int64_t *query_start_loc, *seq_lens, *page_table;     /* (R + 1,), (R,), (groups, R) */
    const int64_t *pages;
    const int64_t *output_indices;              /* (num_outputs,): the tokens that the last layer outputs, ascending */
    const int64_t *logits_rows;                 /* (num_outputs,): their rows of `logits`, or -1; null: 0, 1, 2, … */
    const AdapterSpan *spans;                   /* (num_spans,), ascending */
    void *logits;                               /* (num_logits, outputs of lm_head), in the model's dtype */
    float *hidden;                              /* (num_outputs, hidden): the input of lm_head; null: not written */
    void *workspace;                            /* step_bytes bytes, 64-byte aligned */
} Step;

/* Bytes of workspace that the step needs. */
size_t step_bytes(const Model *model, const Step *step);

/* Compute the step: writes the logits, and the keys and values of its tokens. */
void step_run(const Model *model, const Step *step);

#endif
