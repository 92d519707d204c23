"""What a model's attention asks of a kernel, found by listening to it.

Knows the packed seat; not which kernels there are.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from inference.model.packed.line import Line
from inference.model.packed.plain import plain
from inference.model.packed.pool import Pages
from inference.model.packed.runner import PackedRunner


@dataclass(frozen=True, slots=True)
class Asked:
    """What some of a model's layers ask: of `heads` of queries over `groups` of keys, so wide; the rest as a
    kernel is given it."""

    device: torch.device
    dtype: torch.dtype
    heads: int
    groups: int
    key_width: int
    value_width: int
    scale: float
    window: int | None
    softcap: float | None
    sinks: torch.dtype | None


def asked_of(model: PreTrainedModel) -> Counter[Asked]:
    """What is asked, and by how many layers. Raises Unfit as PackedRunner does."""
    heard: Counter[Asked] = Counter()

    def listen(
        query: torch.Tensor,
        pages: Pages,
        line: Line,
        *,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        asked = Asked(
            device=query.device,
            dtype=query.dtype,
            heads=query.shape[1],
            groups=pages.keys.shape[2],
            key_width=query.shape[2],
            value_width=pages.values.shape[3],
            scale=scale,
            window=window,
            softcap=softcap,
            sinks=None if sinks is None else sinks.dtype,
        )
        heard[asked] += 1
        return plain(query, pages, line, scale=scale, window=window, softcap=softcap, sinks=sinks)

    PackedRunner(model, max_rows=1, context=1, area=1, kernel=listen).probe()
    return heard
