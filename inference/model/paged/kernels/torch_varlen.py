"""torch's variable-length attention, in the torch releases in which it reads pages.

It is FlashAttention: 16-bit dtypes, no softcap, no sinks. Depending on torch's build, it reads pages of
multiples of 256 tokens, or no pages at all; select.py finds out by trying.
"""

from inspect import signature

import torch
from torch.nn.attention.varlen import varlen_attn

from inference.model.batch import UnsupportedModel
from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels.page_table import page_table_of
from inference.model.paged.kv_pool import LayerKV

if "block_table" not in signature(varlen_attn).parameters:
    raise ImportError(f"torch {torch.__version__} does not read pages")


def attend(query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams) -> torch.Tensor:
    """An AttentionKernel. Raises UnsupportedModel for softcap and sinks, RuntimeError for other limits."""
    scale, window, softcap, sinks = params
    if softcap is not None or sinks is not None:
        raise UnsupportedModel("supports neither softcap nor sinks")
    page_table = page_table_of(metadata, query.device)
    output = varlen_attn(
        query,
        kv.keys,
        kv.values,
        page_table.query_start_loc,
        None,
        page_table.max_query_len,
        page_table.max_seq_len,
        scale=scale,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=True,
        seqused_k=page_table.seq_lens,
        block_table=page_table.pages,
    )
    assert isinstance(output, torch.Tensor)  # a tuple only with return_aux
    return output
