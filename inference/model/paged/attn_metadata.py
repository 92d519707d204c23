"""Attention metadata of one step: the tokens of all rows, concatenated, and their slots in the pages.

Attention kernels read it. Knows plain indices; nothing of a model.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from inference.model.batch import Batch
from inference.model.device_copy import lists_to_device


class QuerySpan(NamedTuple):
    """A row of the step: tokens [start, end) are the last ones of the `length` tokens in its pages."""

    start: int
    end: int
    length: int
    pages: Sequence[int]


@dataclass(slots=True, eq=False)
class AttnMetadata:
    """R rows compute T tokens in total; their slots are those of one cache group (see kv_pool.py).

    token_ids        (1, T)
    positions        (1, T)
    slot_mapping     (T,)    page × page_size + offset: where each token's keys and values are written
    logits_indices   (W,)    tokens whose logits are returned; None: all
    spans            (R,)    the rows, on the host
    page_size        tokens of a page
    per_step_cache   values that a kernel computes once for all layers of the group, by name
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    logits_indices: torch.Tensor | None
    spans: list[QuerySpan]
    page_size: int
    per_step_cache: dict[Hashable, Any] = field(default_factory=dict)


StepMetadata = tuple[AttnMetadata, ...]  # of each cache group


def build_metadata(batch: Batch, page_size: int, device: torch.device) -> StepMetadata:
    """Build the metadata of a batch with one host-to-device copy, and without waiting for the device."""
    every = len(batch.logits_indices) == len(batch.token_ids)
    pending = batch.pending_tokens
    page_tables = [batch.page_table]
    lists = [
        batch.token_ids,
        batch.positions,
        [] if every else batch.logits_indices,
        pending.token_indices if pending else [],
        pending.sample_indices if pending else [],
        batch.slot_mapping,
    ]
    for page_table, slot_mapping in batch.window_tables:
        page_tables.append(page_table)
        lists.append(slot_mapping)
    token_ids, positions, logits_indices, pending_positions, sample_indices, *slot_mappings = lists_to_device(
        lists, device
    )
    if pending:
        pending_ids = pending.sampled_ids.index_select(0, sample_indices).clamp_(min=0)
        token_ids.index_copy_(0, pending_positions, pending_ids)
    inputs = token_ids[None], positions[None]
    indices = None if every else logits_indices
    metadata = []
    for slots, page_table in zip(slot_mappings, page_tables, strict=True):
        spans = [
            QuerySpan(start, end, length, pages)
            for (start, end), length, pages in zip(
                pairwise(batch.query_start_loc), batch.seq_lens, page_table, strict=True
            )
        ]
        metadata.append(AttnMetadata(*inputs, slots, indices, spans, page_size))
    return tuple(metadata)
