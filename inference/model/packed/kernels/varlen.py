"""torch's own attention over rows of unlike length, in the releases in which it reads pages.

It is FlashAttention: in 16 bits, without softcap or sinks. The one that torch is built with takes pages of
multiples of 256 tokens, or none at all; what is true is found out by trying.
"""

from inspect import signature

import torch
from torch.nn.attention.varlen import varlen_attn

from inference.model.packed.kernels.index import index_of
from inference.model.packed.line import Line
from inference.model.packed.pool import Pages
from inference.model.unfit import Unfit

if "block_table" not in signature(varlen_attn).parameters:
    raise ImportError(f"torch {torch.__version__} reads no pages")


def paged(
    query: torch.Tensor,
    pages: Pages,
    line: Line,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """A Kernel (see attention.py). Raises Unfit for softcap and sinks, RuntimeError for much else."""
    if softcap is not None or sinks is not None:
        raise Unfit("has neither softcap nor sinks")
    index = index_of(line, query.device)
    mixed = varlen_attn(
        query,
        pages.keys,
        pages.values,
        index.starts,
        None,
        index.widest,
        index.longest,
        scale=scale,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=True,
        seqused_k=index.lengths,
        block_table=index.tables,
    )
    assert isinstance(mixed, torch.Tensor)  # nothing else was asked for
    return mixed
