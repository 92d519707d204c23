"""The input of one step in plain integers (Batch), and the interface that computes it (Runner).

The engine builds a Batch and calls a Runner. A Batch is plain data: it can be printed, compared
or sent to another process, unless some of its token ids are still on the device.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

import torch

from inference.model.kv_cost import WindowGroup


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the first `columns` columns of row `source` over those of row `target`."""

    source: int
    target: int
    columns: int


@dataclass(frozen=True, slots=True)
class Swap:
    """Swap the first `columns` columns of rows `a` and `b`."""

    a: int
    b: int
    columns: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Zero row `row`, or page `row` of paged memory: masked values must be finite too, as 0 × nan is nan.

    group: of the pages; 0 for those of all layers without a window group, else 1 + its index in
    Runner.window_groups.
    """

    row: int
    group: int = 0


@dataclass(frozen=True, slots=True)
class Resize:
    """Resize the memory to rows × columns; contents that fit both shapes are kept."""

    rows: int
    columns: int


CacheOp = Copy | Swap | Clear | Resize
Pooling = Literal["mean", "last"]  # of a text: which of its tokens' hidden states count, all or the last one


@dataclass(frozen=True, slots=True)
class PendingTokens:
    """P token ids of a Batch that the host does not know yet.

    token_ids[token_indices[i]] is sampled_ids[sample_indices[i]].

    token_indices   (P,)  indices into the batch's token ids; ascending
    sample_indices  (P,)  indices into sampled_ids
    sampled_ids     (S,)  int64 on the runner's device; an id below 0 stands for a row without a token, whose
                          result is not used: any token is computed
    """

    token_indices: list[int]
    sample_indices: list[int]
    sampled_ids: torch.Tensor


class GroupTable(NamedTuple):
    """Where a window group (Runner.window_groups) has the tokens of a batch.

    page_table    (R, …)  as Batch.page_table; pages behind the window are the group's null page
    slot_mapping  (T,)    as Batch.slot_mapping
    """

    page_table: Sequence[Sequence[int]]
    slot_mapping: list[int]


@dataclass(frozen=True, slots=True)
class Batch:
    """R rows, T tokens in total. Row i computes token_ids[query_start_loc[i]:query_start_loc[i+1]].

    token_ids        (T,)
    positions        (T,)    position of each token in its row
    slot_mapping     (T,)    where each token's keys and values are stored: see slots_of
    query_start_loc  (R+1,)  where each row's token ids begin; query_start_loc[R] = T
    seq_lens         (R,)    tokens in each row's memory, including those of this step
    rows             (R,)    index of each row in the memory; ascending
    logits_indices   (W,)    indices into token_ids whose logits are returned; ascending
    cache_ops                changes to the memory, applied in order before the forward pass
    encoder_inputs           row → encoder token ids, for encoder-decoder rows in their first step
    page_table       (R, …)  paged memory only: the pages of row i's tokens, in order
    window_tables            the same for each of Runner.window_groups
    pending_tokens           token ids that the host does not know yet; `token_ids` has 0 in their place
    pooled_rows      (P,)    index i of each row whose hidden states are summed, ascending → which of them:
                             see Runner.hidden_sums
    adapter_ids      (R,)    number of each row's adapter, 0: none; empty if no row has one
    """

    token_ids: list[int]
    positions: list[int]
    slot_mapping: list[int]
    query_start_loc: list[int]
    seq_lens: list[int]
    rows: list[int]
    logits_indices: list[int]
    cache_ops: Sequence[CacheOp] = ()
    encoder_inputs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    page_table: Sequence[Sequence[int]] = ()
    pending_tokens: PendingTokens | None = None
    pooled_rows: dict[int, Pooling] = field(default_factory=dict)
    window_tables: list[GroupTable] = field(default_factory=list)
    adapter_ids: list[int] = field(default_factory=list)

    @property
    def num_computed_tokens(self) -> list[int]:
        """(R,) tokens that are in each row's memory before the step."""
        spans = zip(self.seq_lens, pairwise(self.query_start_loc), strict=True)
        return [length - (end - start) for length, (start, end) in spans]


def make_batch(
    token_ids: Iterable[int],
    query_start_loc: Iterable[int],
    num_computed_tokens: Iterable[int],
    rows: Iterable[int],
    logits_indices: Iterable[int],
    cache_ops: Sequence[CacheOp] = (),
    encoder_inputs: Mapping[int, Sequence[int]] | None = None,
    page_table: Sequence[Sequence[int]] = (),
    *,
    page_size: int,
    num_windows: int = 0,
) -> Batch:
    """A Batch for trials and tests, with the positions and slots that follow from the other values.

    page_size: as in slots_of. num_windows: window groups; all have the pages of page_table. The engine's
    batches come from engine/build_batch.py.
    """
    starts, rows = list(query_start_loc), list(rows)
    positions: list[int] = []
    slot_mapping: list[int] = []
    seq_lens: list[int] = []
    for num_computed, (start, end), pages in zip(
        num_computed_tokens, pairwise(starts), page_table or [[row] for row in rows], strict=True
    ):
        seq_lens.append(num_computed + end - start)
        positions += range(num_computed, seq_lens[-1])
        slot_mapping += slots_of(pages, page_size, num_computed, seq_lens[-1])
    return Batch(
        token_ids=list(token_ids),
        positions=positions,
        slot_mapping=slot_mapping,
        query_start_loc=starts,
        seq_lens=seq_lens,
        rows=rows,
        logits_indices=list(logits_indices),
        cache_ops=cache_ops,
        encoder_inputs=encoder_inputs or {},
        page_table=page_table,
        window_tables=[GroupTable(page_table, slot_mapping)] * num_windows,
    )


def slots_of(pages: Sequence[int], page_size: int, start: int, end: int) -> list[int]:
    """The slots of the tokens [start, end) of a row: page × page_size + place in the page.

    A row of contiguous memory is one page of as many tokens as the memory has columns.
    """
    if end - start == 1:
        return [pages[start // page_size] * page_size + start % page_size]
    slots: list[int] = []
    for index in range(start // page_size, -(-end // page_size)):
        first, shift = index * page_size, (pages[index] - index) * page_size
        slots += range(max(start, first) + shift, min(end, first + page_size) + shift)
    return slots


class UnsupportedModel(Exception):
    """A runner does not support a model; the message says which property of the model."""


@dataclass(frozen=True, slots=True)
class RunnerCapabilities:
    """What a runner can do: the engine schedules no step that needs more.

    chunked_prefill  a row that holds tokens can compute several more in one step (chunked prefill, prefix
                     caching, drafts); if False, a row's first step computes its whole prompt and every later
                     step one token
    paged            the KV memory is kv_capacity / page_size pages (Batch.page_table), and Clear its only op
    overlap          forward returns before the device is done, and accepts Batch.pending_tokens
    encoder_decoder  the prompt is the encoder's input (Batch.encoder_inputs); rows hold decoder tokens that
                     begin with Runner.start_ids
    pooling          it computes Runner.hidden_sums
    """

    chunked_prefill: bool
    paged: bool = False
    overlap: bool = False
    encoder_decoder: bool = False
    pooling: bool = False


class Runner(Protocol):
    """Computes steps over its KV memory.

    capabilities   which steps it can compute
    max_sequences  rows that can be in use at once
    context        tokens that one row can hold
    kv_capacity    rows × columns (tokens) of the memory; a Resize never exceeds it
    page_size      tokens of a page; contiguous memory grows by multiples of it
    window_groups  paged memory only: layers whose pages are freed behind their sliding window; the other
                   layers have the kv_capacity / page_size pages of Batch.page_table
    vocab          width of the logits
    start_ids      the first tokens of a row in an encoder-decoder model; else empty
    hidden_sums    (P, d) float32, on its device: the sum of the hidden states (see pooling.py) that the last
                   step computed for each of its pooled_rows; valid until the next call
    """

    capabilities: RunnerCapabilities
    max_sequences: int
    context: int
    kv_capacity: int
    page_size: int
    window_groups: tuple[WindowGroup, ...]
    vocab: int
    start_ids: tuple[int, ...]
    hidden_sums: torch.Tensor

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        ...
