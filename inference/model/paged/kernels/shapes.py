"""Finds the attention shapes of a model by recording the calls of its attention.

Knows the paged runner; not which kernels exist.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kv_pool import KVPool, LayerKV
from inference.model.paged.runner import PagedRunner
from inference.model.paged.sdpa import sdpa_kernel


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The attention of one or more layers of a model.

    num_heads                 query heads
    num_kv_heads              KV heads
    head_dim, value_head_dim  size of a head of queries and keys, and of values
    scale, window, softcap    as in AttentionParams
    sinks                     dtype of the sinks; None: no sinks
    """

    device: torch.device
    dtype: torch.dtype
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int
    scale: float
    window: int | None
    softcap: float | None
    sinks: torch.dtype | None


def attention_shapes(model: PreTrainedModel) -> Counter[AttentionShape]:
    """The shapes, and the number of layers with each. Raises UnsupportedModel as PagedRunner does."""
    shapes: Counter[AttentionShape] = Counter()

    def record_shape(
        query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams
    ) -> torch.Tensor:
        shape = AttentionShape(
            device=query.device,
            dtype=query.dtype,
            num_heads=query.shape[1],
            num_kv_heads=kv.keys.shape[2],
            head_dim=query.shape[2],
            value_head_dim=kv.values.shape[3],
            scale=params.scale,
            window=params.window,
            softcap=params.softcap,
            sinks=None if params.sinks is None else params.sinks.dtype,
        )
        shapes[shape] += 1
        return sdpa_kernel(query, kv, metadata, params)

    PagedRunner(model, KVPool(1), max_sequences=1, context=1, kernel=record_shape).probe()
    return shapes
