"""What one step computes, in plain integers, and who computes it.

The engine fills a Batch and knows a Runner; the seats in this folder are Runners. Nothing here knows torch's
device or a model: a Batch can be printed, compared, or sent to another process, unless ids are on their way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class Copy:
    """The first `columns` columns of row `source` are written over those of row `target`."""

    source: int
    target: int
    columns: int


@dataclass(frozen=True, slots=True)
class Swap:
    """Rows `a` and `b` trade places, `columns` of each."""

    a: int
    b: int
    columns: int


@dataclass(frozen=True, slots=True)
class Clear:
    """Row (or page) `row` is blank again: even what a mask hides must be numbers, as 0 × nan is nan."""

    row: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The memory becomes rows × columns; what fits in both shapes is kept."""

    rows: int
    columns: int


Move = Copy | Swap | Clear | Shape


@dataclass(frozen=True, slots=True)
class Batch:
    """R rows take T tokens in all. Row i takes ids[starts[i]:starts[i+1]], behind cached[i] tokens it holds.

    ids      (T,)    token ids
    starts   (R+1,)  where each row's ids begin; starts[R] = T
    cached   (R,)    tokens already in the row's memory = position of its first new token
    rows     (R,)    which row of the memory; ascending
    want     (W,)    indices into ids after which logits are wanted, ascending
    moves            memory moves, done in order before anything is computed
    sources          row → encoder input, for rows of an encoder-decoder model that begin in this step
    tables   (R, …)  where the memory is in pages: those that row i's tokens stand in, in order
    coming   (T,)    int64, on the runner's device: the ids, where the host does not know them yet; `ids` then
                     only say how many
    """

    ids: Sequence[int]
    starts: Sequence[int]
    cached: Sequence[int]
    rows: Sequence[int]
    want: Sequence[int]
    moves: Sequence[Move] = ()
    sources: Mapping[int, Sequence[int]] = field(default_factory=dict)
    tables: Sequence[Sequence[int]] = ()
    coming: torch.Tensor | None = None


class Runner(Protocol):
    """Runs steps and owns the tensors they remember.

    max_rows   rows that can be in use at once
    context    tokens one row can hold
    area       rows × columns that the memory holds; a Shape never exceeds it
    step       columns are allotted in multiples of this; tokens of a page
    paged      the memory is in pages, area / step of them: Batch.tables; of the moves there is only Clear
    vocab      width of the logits
    resumes    a row that holds tokens takes several more in one step (chunked prefill, prefix reuse, drafts);
               where False, a row's first step takes its whole prompt and every later step one token
    overlaps   it computes on while its caller goes on, and takes ids that are still to come (Batch.coming)
    encodes    an encoder-decoder model: the prompt is the encoder's input (Batch.sources) and the rows hold
               decoder tokens, the first of which is `start_id`
    """

    max_rows: int
    context: int
    area: int
    step: int
    vocab: int
    resumes: bool
    paged: bool
    overlaps: bool
    encodes: bool
    start_ids: tuple[int, ...]

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        ...
