"""The sizes of a tiny model, and the settings that each size is for. NUM_HEADS * HEAD_DIM == HIDDEN."""

from collections.abc import Mapping

VOCAB = 128
CONTEXT = 128
HIDDEN = 32
NUM_HEADS = 4
HEAD_DIM = 8
WINDOW = 6  # shorter than most prompts: otherwise the window has no effect
INNER = 64
RANK = 16  # also of sparse attention's indexers: with fewer, two columns can have equal scores
NUM_LAYERS = 2

# Each size, and the names of the settings that get it.
NAMES: tuple[tuple[int, str], ...] = (
    (
        VOCAB,
        """
        vocab_size vocab_size_per_layer_input src_vocab_size tgt_vocab_size decoder_vocab_size
        unpadded_vocab_size pronunciation_vocab_size shape_vocab_size ngram_vocab_size_base
        max_position_embeddings n_positions n_ctx max_seq_len context_length model_max_length
        max_source_positions max_target_positions max_sequence_length max_encoder_position_embeddings
        max_decoder_position_embeddings original_max_position_embeddings
    """,
    ),
    (
        HIDDEN,
        """
        hidden_size d_model n_embd embedding_dim emb_dim embedding_size word_embed_proj_dim dim_model
        hidden_dim attention_hidden_size lru_width input_embedding_size output_embedding_size adapter_in_dim
        adapter_out_dim adapter_input_size audio_hidden_size hidden_size_global encoder_hidden_size
        out_hidden_size output_dim cross_attention_hidden_size
    """,
    ),
    (
        INNER,
        """
        intermediate_size n_inner ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff dff dim_ff ffn_hidden_size
        d_inner feed_forward_size intermediate_size_mlp dense_intermediate_size mamba_d_ssm mlp_dim
        t2u_encoder_ffn_dim t2u_decoder_ffn_dim speech_encoder_intermediate_size
    """,
    ),
    (
        RANK,
        """
        moe_intermediate_size shared_expert_intermediate_size shared_experts_intermediate_size laurel_rank
        shared_intermediate_size expert_ffn_hidden_size moe_shared_expert_intermediate_size q_lora_rank
        kv_lora_rank o_lora_rank adapter_rank gated_norm_rank time_step_rank mamba_dt_rank hc_lowrank
        router_hidden_size hidden_size_per_layer_input moe_latent_size qk_head_dim attention_head_dim
        index_n_heads
    """,
    ),
    (
        HEAD_DIM,
        """
        head_dim d_kv d_head dim_head kv_channels attention_head_size qk_rope_head_dim qk_nope_head_dim
        index_head_dim linear_key_head_dim linear_value_head_dim linear_head_dim query_pre_attn_scalar
        global_head_dim v_head_dim swa_head_dim swa_v_head_dim mamba_d_head mamba_head_dim mamba_headdim
        mamba_d_state state_size ssm_state_size mamba_n_heads mamba_num_heads n_mamba_heads chunk_size
        mamba_chunk_size num_filters
    """,
    ),
    (
        WINDOW,
        """
        sliding_window window_size local_attention attention_chunk_size attention_window_size
        sliding_window_size keep_window_size local_radius index_topk
    """,
    ),
    (
        NUM_HEADS,
        """
        num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads
        attention_heads num_encoder_attention_heads num_decoder_attention_heads swa_num_attention_heads
        linear_num_value_heads linear_num_heads rotary_dim num_experts num_local_experts n_routed_experts
        moe_num_experts
    """,
    ),
    (
        NUM_LAYERS,
        """
        num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers
        num_decoder_layers num_layers_per_stack depth num_blocks speech_encoder_layers t2u_encoder_layers
        t2u_decoder_layers num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k top_k_experts
    """,
    ),
    (
        1,
        """
        n_group num_expert_group topk_group moe_num_shared_experts n_shared_experts num_shared_experts
        n_groups mamba_n_groups mamba_ngroups first_k_dense_replace num_dense_layers
    """,
    ),
)
SIZES: Mapping[str, int] = {name: size for size, names in NAMES for name in names.split()}

# Settings with a number of key-value heads, and the setting with the matching number of query heads.
GROUPS: Mapping[str, str] = {
    "num_key_value_heads": "num_attention_heads",
    "num_kv_heads": "num_attention_heads",
    "kv_n_heads": "n_heads",
    "num_query_groups": "num_attention_heads",
    "num_global_key_value_heads": "num_attention_heads",
    "swa_num_key_value_heads": "swa_num_attention_heads",
    "linear_num_key_heads": "linear_num_value_heads",
}
# The values of settings that are None in a config.
DEFAULTS: Mapping[str, int] = {"head_dim": HEAD_DIM, "num_key_value_heads": NUM_HEADS}
