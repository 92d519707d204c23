"""How large a tiny model is: one size for each name that configs give to the same thing.

Sizes fit each other: HEADS heads of WIDTH make HIDDEN. Knows names alone; no config, no model.
"""

from collections.abc import Mapping

VOCAB = 128
CONTEXT = 128
HIDDEN = 32
HEADS = 4
WIDTH = 8
LAYERS = 2
WINDOW = 6  # shorter than most prompts, so that what a window hides matters
EXPERTS = 4
INNER = 64
STATE = 8
RANK = 16

NAMES: tuple[tuple[int, str], ...] = (
    (VOCAB, "vocab_size vocab_size_per_layer_input src_vocab_size tgt_vocab_size decoder_vocab_size"),
    (VOCAB, "unpadded_vocab_size pronunciation_vocab_size shape_vocab_size ngram_vocab_size_base"),
    (CONTEXT, "max_position_embeddings n_positions n_ctx max_seq_len context_length model_max_length"),
    (CONTEXT, "max_source_positions max_target_positions max_encoder_position_embeddings"),
    (CONTEXT, "max_decoder_position_embeddings original_max_position_embeddings max_sequence_length"),
    (HIDDEN, "hidden_size d_model n_embd embedding_dim emb_dim embedding_size word_embed_proj_dim dim_model"),
    (HIDDEN, "attention_hidden_size lru_width input_embedding_size output_embedding_size hidden_dim"),
    (HIDDEN, "hidden_size_global encoder_hidden_size out_hidden_size cross_attention_hidden_size output_dim"),
    (HEADS, "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"),
    (HEADS, "attention_heads num_encoder_attention_heads num_decoder_attention_heads"),
    (WIDTH, "head_dim d_kv d_head dim_head kv_channels attention_head_size qk_rope_head_dim qk_nope_head_dim"),
    (WIDTH, "linear_key_head_dim linear_value_head_dim linear_head_dim index_head_dim query_pre_attn_scalar"),
    (WIDTH, "global_head_dim v_head_dim swa_head_dim swa_v_head_dim mamba_d_head mamba_head_dim mamba_headdim"),
    (2 * WIDTH, "qk_head_dim attention_head_dim"),
    (WIDTH // 2, "rotary_dim"),
    (LAYERS, "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers"),
    (LAYERS, "num_decoder_layers num_layers_per_stack depth num_blocks speech_encoder_layers"),
    (LAYERS, "t2u_encoder_layers t2u_decoder_layers"),
    (WINDOW, "sliding_window window_size local_attention attention_chunk_size attention_window_size"),
    (WINDOW, "sliding_window_size keep_window_size local_radius"),
    (INNER, "intermediate_size n_inner ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff dff dim_ff ffn_hidden_size"),
    (INNER, "d_inner feed_forward_size intermediate_size_mlp dense_intermediate_size mamba_d_ssm mlp_dim"),
    (INNER, "speech_encoder_intermediate_size t2u_encoder_ffn_dim t2u_decoder_ffn_dim"),
    (RANK, "moe_intermediate_size shared_expert_intermediate_size shared_experts_intermediate_size"),
    (RANK, "shared_intermediate_size expert_ffn_hidden_size moe_shared_expert_intermediate_size"),
    (RANK, "q_lora_rank kv_lora_rank o_lora_rank laurel_rank adapter_rank gated_norm_rank time_step_rank"),
    (RANK, "mamba_dt_rank hc_lowrank hidden_size_per_layer_input router_hidden_size moe_latent_size"),
    (STATE, "mamba_d_state state_size ssm_state_size mamba_n_heads mamba_num_heads n_mamba_heads"),
    (STATE, "chunk_size mamba_chunk_size"),
    (EXPERTS, "num_experts num_local_experts n_routed_experts moe_num_experts"),
    (2, "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k top_k_experts"),
    (1, "n_group num_expert_group topk_group moe_num_shared_experts n_shared_experts num_shared_experts"),
    (1, "n_groups mamba_n_groups mamba_ngroups first_k_dense_replace num_dense_layers"),
    (WINDOW, "index_topk"),
    (16, "index_n_heads"),  # so many that their scores, each of which may be cut to 0, are never all 0
)
SIZES: Mapping[str, int] = {name: size for size, names in NAMES for name in names.split()}

# Heads of keys and values: as many as the model's own share of HEADS; the heads they are a share of.
GROUPS: Mapping[str, str] = {
    "num_key_value_heads": "num_attention_heads",
    "num_kv_heads": "num_attention_heads",
    "kv_n_heads": "n_heads",
    "num_query_groups": "num_attention_heads",
    "num_global_key_value_heads": "num_attention_heads",
    "swa_num_key_value_heads": "swa_num_attention_heads",
    "linear_num_key_heads": "linear_num_value_heads",
}
SIZES = SIZES | {"swa_num_attention_heads": HEADS, "linear_num_value_heads": HEADS, "linear_num_heads": HEADS}
# What a config may leave to the one who makes the model.
UNSAID: Mapping[str, int] = {"head_dim": WIDTH, "num_key_value_heads": HEADS}
