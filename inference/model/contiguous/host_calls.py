"""Splits a Batch into calls of the model: which rows share a call, and the indices that each call needs.

Works on lists, which reach the device in one copy. Knows nothing of a model.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from inference.model.batch import Batch
from inference.model.contiguous.call import ForwardCall
from inference.model.device_copy import lists_to_device
from inference.model.forward_pass.pooling import pooled_span
from inference.model.forward_pass.step_adapters import StepAdapters, padded_adapters

ONE_ROW = -1  # as max_padding: every row has a call of its own


@dataclass(slots=True, eq=False)
class HostCall:
    """A ForwardCall on the host, with lists in place of its tensors.

    real, logits_indices  also complete where ForwardCall has None
    logits_positions      (W,) where each of logits_indices is in batch.logits_indices
    pooled_spans          index into batch.rows → tokens of the row, among R × q: rows to be pooled
    adapters              the tokens that have an adapter, among R × q
    """

    first: int
    num_rows: int
    width: int
    columns: int
    uniform: bool
    first_step: bool
    token_ids: list[int]
    positions: list[int]
    slot_mapping: list[int]
    real: list[int]
    logits_indices: list[int]
    logits_positions: list[int]
    pooled_spans: dict[int, tuple[int, int]]
    adapters: StepAdapters | None

    def index_lists(self) -> tuple[list[int], ...]:
        size = self.num_rows * self.width
        real = [] if len(self.real) == size else self.real
        logits_indices = [] if len(self.logits_indices) == size else self.logits_indices
        return self.token_ids, self.positions, self.slot_mapping, real, logits_indices

    def to_call(self, tensors: Iterator[torch.Tensor]) -> ForwardCall:
        token_ids, positions, slot_mapping, real, logits_indices = (next(tensors) for _ in range(5))
        size = self.num_rows * self.width
        return ForwardCall(
            first=self.first,
            num_rows=self.num_rows,
            width=self.width,
            columns=self.columns,
            uniform=self.uniform,
            first_step=self.first_step,
            token_ids=token_ids.view(self.num_rows, self.width),
            positions=positions.view(self.num_rows, self.width),
            slot_mapping=slot_mapping,
            real=None if len(self.real) == size else real,
            logits_indices=None if len(self.logits_indices) == size else logits_indices,
            pooled_rows=list(self.pooled_spans),
            pooled_spans=list(self.pooled_spans.values()),
            adapters=self.adapters,
        )


def plan_calls(
    batch: Batch, max_padding: int, device: torch.device
) -> tuple[list[ForwardCall], torch.Tensor | None]:
    """The calls that compute `batch`, and the order of their logits.

    max_padding: padding tokens that a call may have, or ONE_ROW. The order is an index tensor that sorts the
    concatenated logits of the calls as batch.logits_indices; None for a single call.
    """
    logits_of_row = logits_by_row(batch)
    host_calls = [
        build_host_call(batch, members, logits_of_row) for members in group_rows(batch, max_padding)
    ]
    positions = [position for host_call in host_calls for position in host_call.logits_positions]
    order = sorted(range(len(positions)), key=positions.__getitem__) if len(host_calls) > 1 else []
    tensors = lists_to_device(
        [ints for host_call in host_calls for ints in host_call.index_lists()] + [order], device
    )
    return [host_call.to_call(tensors) for host_call in host_calls], next(tensors) if order else None


def logits_by_row(batch: Batch) -> list[list[tuple[int, int]]]:
    """For each row, its logits indices as (index into batch.token_ids, index into batch.logits_indices)."""
    by_row: list[list[tuple[int, int]]] = [[] for _ in batch.rows]
    for position, token in enumerate(batch.logits_indices):
        by_row[bisect_right(batch.query_start_loc, token) - 1].append((token, position))
    return by_row


def group_rows(batch: Batch, max_padding: int) -> list[list[int]]:
    """Group rows that share a call: lists of indices into batch.rows, each ascending.

    Rows of similar width share a call as long as it has at most max_padding padding tokens: the tails of
    shorter rows, and idle rows in between. Without padding, rows at their first step never share a call with
    others: models that allow none treat the first step differently, for the whole call.
    """
    widths = [end - start for start, end in pairwise(batch.query_start_loc)]
    fresh = [not max_padding and not cached for cached in batch.num_computed_tokens]
    row_groups: list[list[int]] = []
    low = high = total = 0
    for i in sorted(range(len(widths)), key=lambda i: (fresh[i], widths[i])):
        a, b = min(low, batch.rows[i]), max(high, batch.rows[i])
        padding = (b - a + 1) * widths[i] - total - widths[i]
        if row_groups and padding <= max_padding and fresh[i] == fresh[row_groups[-1][0]]:
            row_groups[-1].append(i)
            low, high, total = a, b, total + widths[i]
        else:
            row_groups.append([i])
            low = high = batch.rows[i]
            total = widths[i]
    return [sorted(members) for members in row_groups]


def build_host_call(batch: Batch, members: list[int], logits_of_row: list[list[tuple[int, int]]]) -> HostCall:
    """Build the call of some rows. Padding is token 0 at its row's last position, or at 0 in idle rows."""
    first = batch.rows[members[0]]
    num_rows = batch.rows[members[-1]] - first + 1
    width = max(batch.query_start_loc[i + 1] - batch.query_start_loc[i] for i in members)
    token_ids, positions = [0] * (num_rows * width), [0] * (num_rows * width)
    slot_mapping: list[int] = []
    real: list[int] = []
    logits_indices: list[int] = []
    logits_positions: list[int] = []
    pooled_spans: dict[int, tuple[int, int]] = {}
    counts_before = set()
    rows = [batch.rows[i] - first for i in members]
    for i in members:
        start, end = batch.query_start_loc[i], batch.query_start_loc[i + 1]
        at, count = (batch.rows[i] - first) * width, end - start
        token_ids[at : at + count] = batch.token_ids[start:end]
        positions[at : at + width] = batch.positions[start:end] + [batch.positions[end - 1]] * (width - count)
        slot_mapping += batch.slot_mapping[start:end]
        real += range(at, at + count)
        counts_before.add(batch.seq_lens[i] - count)
        if i in batch.pooled_rows:
            first_pooled, end_pooled = pooled_span(batch, i)
            pooled_spans[i] = at + first_pooled - start, at + end_pooled - start
        for token, position in logits_of_row[i]:
            logits_indices.append(at + token - start)
            logits_positions.append(position)
    return HostCall(
        first=first,
        num_rows=num_rows,
        width=width,
        columns=max(batch.seq_lens[i] for i in members),
        uniform=len(counts_before) == 1 and len(real) == num_rows * width,
        first_step=not any(counts_before),
        token_ids=token_ids,
        positions=positions,
        slot_mapping=slot_mapping,
        real=real,
        logits_indices=logits_indices,
        logits_positions=logits_positions,
        pooled_spans=pooled_spans,
        adapters=padded_adapters([batch.adapter_ids[i] for i in members], rows, width, logits_indices)
        if batch.adapter_ids
        else None,
    )
