"""Divides data into micro-batches: rows of similar length that are computed in one pass.

The rows are padded on the right, which a causal model needs no mask for, or packed into one row with
positions that restart. Knows data; no model.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from tuning.trainer.datum import Datum
from tuning.trainer.losses import Loss

MAX_PASS_TOKENS = 4096  # tokens of a micro-batch: more make a pass no faster


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Several data, laid out for one pass. All tensors are on the model's device.

    indices       of the data, in the order of the rows
    ids           (B, T) what the model reads
    position_ids  (1, T) of packed data; None: one datum a row
    scored        (M,) places in the flattened (B × T) whose targets are scored
    targets       (M,)
    rows          (M,) the row, counted from 0, of each scored place
    inputs        (M,) each
    """

    indices: tuple[int, ...]
    ids: Tensor
    position_ids: Tensor | None
    scored: Tensor
    targets: Tensor
    rows: Tensor
    inputs: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Layout:
    """How data are laid out in micro-batches.

    max_tokens  of a micro-batch, padding included; a longer group is computed alone
    max_rows    data of a micro-batch; a larger group is computed alone
    packing     data follow one another in one row, instead of being padded
    """

    max_tokens: int = MAX_PASS_TOKENS
    max_rows: int = sys.maxsize
    packing: bool = False


def divide(data: Sequence[Datum], loss: Loss, layout: Layout) -> list[tuple[int, ...]]:
    """The indices of the data of each micro-batch."""
    size = loss.group_size
    groups = [tuple(range(first, first + size)) for first in range(0, len(data), size)]
    groups.sort(key=lambda group: -max(len(data[index]) for index in group))  # the largest pass first
    batches: list[tuple[int, ...]] = []
    for group in groups:
        larger = (*batches[-1], *group) if batches else ()
        if 0 < len(larger) <= layout.max_rows and num_computed(data, larger, layout) <= layout.max_tokens:
            batches[-1] = larger
        else:
            batches.append(group)
    return batches


def num_computed(data: Sequence[Datum], indices: Sequence[int], layout: Layout) -> int:
    """The tokens of a pass over these data, padding included."""
    lengths = [len(data[index]) for index in indices]
    return sum(lengths) if layout.packing else max(lengths) * len(lengths)


def lay_out(
    data: Sequence[Datum], indices: tuple[int, ...], loss: Loss, packing: bool, device: torch.device
) -> MicroBatch:
    rows = [data[index] for index in indices]
    width = max(map(len, rows))
    starts = packed_starts(rows) if packing else [number * width for number in range(len(rows))]
    places = [scored_places(row, loss) for row in rows]
    scored = [start + place for start, row in zip(starts, places, strict=True) for place in row]
    row_numbers = [number for number, row in enumerate(places) for _ in row]

    def gathered(name: str) -> Tensor:
        values = (row.inputs[name][place] for row, each in zip(rows, places, strict=True) for place in each)
        return torch.tensor(list(values), dtype=torch.float32, device=device)

    targets = [row.target_ids[place] for row, each in zip(rows, places, strict=True) for place in each]
    return MicroBatch(
        indices,
        packed_ids(rows, device) if packing else padded_ids(rows, width, device),
        packed_positions(rows, device) if packing else None,
        torch.tensor(scored, dtype=torch.long, device=device),
        torch.tensor(targets, dtype=torch.long, device=device),
        torch.tensor(row_numbers, dtype=torch.long, device=device),
        {name: gathered(name) for name in loss.inputs},
    )


def scored_places(datum: Datum, loss: Loss) -> list[int]:
    """The targets that the loss depends on."""
    if not loss.mask:
        return list(range(len(datum)))
    return [place for place, value in enumerate(datum.inputs[loss.mask]) if value]


def packed_starts(rows: Sequence[Datum]) -> list[int]:
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    return ends[:-1]


def packed_ids(rows: Sequence[Datum], device: torch.device) -> Tensor:
    return torch.tensor([list(chain.from_iterable(row.token_ids for row in rows))], device=device)


def packed_positions(rows: Sequence[Datum], device: torch.device) -> Tensor:
    """transformers recognizes packed sequences by positions that restart, if there is no attention mask."""
    return torch.tensor([list(chain.from_iterable(range(len(row)) for row in rows))], device=device)


def padded_ids(rows: Sequence[Datum], width: int, device: torch.device) -> Tensor:
    return torch.tensor([[*row.token_ids, *[0] * (width - len(row))] for row in rows], device=device)


def split_rows(values: Tensor, batch: MicroBatch, data: Sequence[Datum], loss: Loss) -> Iterator[Tensor]:
    """For each datum of the batch, a tensor (N,) with its values (M,), and NaN at the other targets."""
    counts = torch.bincount(batch.rows, minlength=len(batch.indices)).tolist()
    for index, scores in zip(batch.indices, values.split(counts), strict=True):
        spread = torch.full((len(data[index]),), torch.nan)
        spread[scored_places(data[index], loss)] = scores.cpu()
        yield spread
