"""Attention metadata of one step: the tokens of all rows, concatenated, and their slots in the pages.

Attention reads the current metadata while the model runs. Knows plain indices; nothing of a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from inference.device_copy import lists_to_device
from inference.model.batch import Batch
from inference.model.forward_context import ForwardContext
from inference.model.placement.hooks import DeviceCopies


class QuerySpan(NamedTuple):
    """A row of the step: tokens [start, end) are the last ones of the `length` tokens in its pages."""

    start: int
    end: int
    length: int
    pages: Sequence[int]


@dataclass(slots=True, eq=False)
class AttnMetadata:
    """R rows compute T tokens in total.

    token_ids        (1, T)
    positions        (1, T)
    slot_mapping     (T,)    page × page_size + offset: where each token's keys and values are written
    logits_indices   (W,)    tokens whose logits are returned; None: all
    spans            (R,)    the rows, on the host
    page_size        tokens of a page
    logits_selected  whether the output layer was given only the tokens of logits_indices
    per_step_cache   values that a kernel computes once for all layers of the step, by name
    copies           copies of these tensors for layers on other devices
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    logits_indices: torch.Tensor | None
    spans: list[QuerySpan]
    page_size: int
    logits_selected: bool = False
    per_step_cache: dict[str, Any] = field(default_factory=dict)
    copies: DeviceCopies = field(default_factory=DeviceCopies)


def build_metadata(batch: Batch, page_size: int, device: torch.device) -> AttnMetadata:
    """Build the metadata of a batch with one host-to-device copy, and without waiting for the device."""
    spans = [
        QuerySpan(start, end, num_computed + end - start, pages)
        for (start, end), num_computed, pages in zip(
            pairwise(batch.query_start_loc), batch.num_computed_tokens, batch.page_table, strict=True
        )
    ]
    positions: list[int] = []
    slots: list[int] = []
    for start, end, length, pages in spans:
        first = length - (end - start)
        positions += range(first, length)
        slots += [pages[at // page_size] * page_size + at % page_size for at in range(first, length)]
    every = len(batch.logits_indices) == len(batch.token_ids)
    pending = batch.pending_tokens
    token_ids, where, slot_mapping, logits_indices, pending_positions, sample_indices = lists_to_device(
        [
            list(batch.token_ids),
            positions,
            slots,
            [] if every else list(batch.logits_indices),
            pending.positions if pending else [],
            pending.sample_indices if pending else [],
        ],
        device,
    )
    if pending:
        pending_ids = pending.sampled_ids.index_select(0, sample_indices).clamp_(min=0)
        token_ids.index_copy_(0, pending_positions, pending_ids)
    return AttnMetadata(
        token_ids[None], where[None], slot_mapping, None if every else logits_indices, spans, page_size
    )


_context = ForwardContext[AttnMetadata]()
current_metadata, use_metadata = _context.get, _context.use
