"""FlashAttention 2, if its package is installed: 16-bit dtypes, pages of multiples of 256, no sinks."""

import torch
from flash_attn import flash_attn_varlen_func

from inference.model.batch import UnsupportedModel
from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels.page_table import page_table_of
from inference.model.paged.kv_pool import LayerKV


def attend(query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams) -> torch.Tensor:
    """An AttentionKernel. Raises UnsupportedModel for sinks, RuntimeError for other head sizes and dtypes."""
    scale, window, softcap, sinks = params
    if sinks is not None:
        raise UnsupportedModel("does not support sinks")
    page_table = page_table_of(metadata, query.device)
    output: torch.Tensor = flash_attn_varlen_func(
        query,
        kv.keys,
        kv.values,
        cu_seqlens_q=page_table.query_start_loc,
        cu_seqlens_k=page_table.cu_seq_lens,
        max_seqlen_q=page_table.max_query_len,
        max_seqlen_k=page_table.max_seq_len,
        softmax_scale=scale,
        causal=True,
        window_size=(-1 if window is None else window - 1, 0),
        softcap=softcap or 0.0,
        block_table=page_table.pages,
    )
    return output
