"""Which adapter each token of a forward pass has: spans of tokens, gathered into one group for each adapter.

Knows token indices; nothing of what an adapter changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch

from inference.model.batch import Batch
from inference.model.device_copy import to_device

AdapterSpan = tuple[int, int, int]  # (adapter's number, first token, token behind the last)
ALL_TOKENS = slice(None)


class TokenGroup(NamedTuple):
    """The tokens of one adapter: ALL_TOKENS, another slice, or indices (N,)."""

    number: int
    tokens: slice | torch.Tensor


@dataclass(slots=True, eq=False)
class StepAdapters:
    """The adapters of a forward pass over `num_tokens` tokens, of which `num_logits` reach the output layer.

    spans         the tokens that have an adapter, ascending
    logits_spans  the same, as indices of the logits
    """

    num_tokens: int
    num_logits: int
    spans: Sequence[AdapterSpan]
    logits_spans: Sequence[AdapterSpan]
    _groups: dict[tuple[bool, torch.device], list[TokenGroup]] = field(default_factory=dict)

    def has_inputs(self, count: int, of_logits: bool) -> bool:
        """Whether a module that gets `count` tokens gets all, or with of_logits all that have logits."""
        return count == (self.num_logits if of_logits else self.num_tokens)

    def groups(self, of_logits: bool, device: torch.device) -> list[TokenGroup]:
        """The groups among all tokens, or with of_logits among those whose logits are computed."""
        key = of_logits, device
        if key not in self._groups:
            spans = self.logits_spans if of_logits else self.spans
            num_tokens = self.num_logits if of_logits else self.num_tokens
            self._groups[key] = list(group_spans(spans, num_tokens, device))
        return self._groups[key]

    def only_adapter(self) -> int:
        """The adapter of all tokens. Raises ValueError if they have several."""
        numbers = {number for number, _, _ in self.spans}
        if len(numbers) != 1 or sum(end - start for _, start, end in self.spans) != self.num_tokens:
            raise ValueError("a module mixes the tokens of several adapters")
        return numbers.pop()


def group_spans(spans: Sequence[AdapterSpan], num_tokens: int, device: torch.device) -> Iterable[TokenGroup]:
    """One group for each adapter, its spans joined. num_tokens: of all, with and without adapters."""
    ranges: dict[int, list[range]] = {}
    for number, start, end in spans:
        before = ranges.setdefault(number, [])
        if before and before[-1].stop == start:
            start = before.pop().start
        before.append(range(start, end))
    for number, each in ranges.items():
        if len(each) == 1:
            tokens = ALL_TOKENS if len(each[0]) == num_tokens else slice(each[0].start, each[0].stop)
            yield TokenGroup(number, tokens)
        else:
            indices = torch.tensor([token for tokens in each for token in tokens])
            yield TokenGroup(number, to_device(indices, device))


def batch_adapters(batch: Batch) -> StepAdapters | None:
    """The adapters of a batch whose tokens are computed in their order; None if no row has one."""
    if not batch.adapter_ids:
        return None
    rows = zip(batch.adapter_ids, pairwise(batch.query_start_loc), strict=True)
    spans = [(number, start, end) for number, (start, end) in rows if number]
    return StepAdapters(
        len(batch.token_ids), len(batch.logits_indices), spans, spans_of_logits(spans, batch.logits_indices)
    )


def spans_of_logits(spans: Sequence[AdapterSpan], logits_indices: Sequence[int]) -> list[AdapterSpan]:
    """The spans as indices of the logits. logits_indices: ascending."""
    selected, row = [], 0
    for number, start, end in spans:
        while row < len(logits_indices) and logits_indices[row] < start:
            row += 1
        first = row
        while row < len(logits_indices) and logits_indices[row] < end:
            row += 1
        if row > first:
            selected.append((number, first, row))
    return selected


def padded_adapters(
    numbers: Sequence[int], rows: Sequence[int], width: int, logits_indices: Sequence[int]
) -> StepAdapters | None:
    """The adapters of a call of `width` tokens a row; None if no row has one.

    numbers: the adapter of each of `rows`. Idle rows between them count to the only adapter, if it is one.
    """
    num_tokens = (rows[-1] + 1) * width
    if set(numbers) == {0}:
        return None
    if len(set(numbers)) == 1:
        spans = [(numbers[0], 0, num_tokens)]
    else:
        spans = [
            (number, row * width, (row + 1) * width)
            for number, row in zip(numbers, rows, strict=True)
            if number
        ]
    logits_spans = spans_of_logits(spans, logits_indices)
    return StepAdapters(num_tokens, len(logits_indices), spans, logits_spans)


def uniform_adapters(number: int, num_tokens: int, num_logits: int) -> StepAdapters | None:
    """The adapters of a pass over tokens of one adapter; None for number 0."""
    if not number:
        return None
    return StepAdapters(num_tokens, num_logits, [(number, 0, num_tokens)], [(number, 0, num_logits)])
