"""Divides data into micro-batches: rows of similar length that are computed in one pass.

The rows are padded on the right, which a causal model needs no mask for, or packed into one row with
positions that restart. Knows data; no model.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from tuning.trainer.datum import Array, Datum
from tuning.trainer.losses.table import Loss
from tuning.types import Hyperparameters

MAX_PASS_TOKENS = 4096  # tokens of a micro-batch: more make a pass no faster


@dataclass(frozen=True, slots=True)
class Targets:
    """Some of the targets of a micro-batch.

    positions  (P,) the tokens before them, in the flattened (B × T)
    ids        (M,)
    places     (M,) the index in `positions` of the token before each target; None: one target a token
    """

    positions: Tensor
    ids: Tensor
    places: Tensor | None


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Several data, laid out for one pass. All tensors are on the model's device.

    indices       of the data, in the order of the rows
    ids           (B, T) what the model reads
    position_ids  (1, T) of packed data; None: one datum a row
    scored        the targets that the loss depends on
    masked        the others
    rows          (M,) the row, counted from 0, of each scored target
    inputs        (M,) each, of the scored targets
    """

    indices: tuple[int, ...]
    ids: Tensor
    position_ids: Tensor | None
    scored: Targets
    masked: Targets
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


def make_layout(hyperparameters: Hyperparameters, group_size: int) -> Layout:
    """The layout of a job's passes. group_size: data of a row that are computed in one pass."""
    return Layout(max_rows=hyperparameters.batch_size * group_size, packing=hyperparameters.packing)


def divide(data: Sequence[Datum], group_size: int, layout: Layout) -> list[tuple[int, ...]]:
    """The indices of the data of each micro-batch. group_size: data that are computed in one pass."""
    groups = [tuple(range(first, first + group_size)) for first in range(0, len(data), group_size)]
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
    """The micro-batch of these data. packing: they follow one another in one row, without padding."""
    rows = [data[index] for index in indices]
    width = max(map(len, rows))
    starts = packed_starts(rows) if packing else [number * width for number in range(len(rows))]
    is_scored = [scored_targets(row, loss) for row in rows]
    row_numbers = np.repeat(np.arange(len(rows)), [each.sum() for each in is_scored])

    def gather(name: str) -> Tensor:
        values = [row.input(name, loss.absent.get(name)) for row in rows]
        return to_tensor([each[mask] for each, mask in zip(values, is_scored, strict=True)], device)

    return MicroBatch(
        indices=indices,
        ids=packed_ids(rows, device) if packing else padded_ids(rows, width, device),
        position_ids=packed_positions(rows, device) if packing else None,
        scored=gather_targets(rows, starts, is_scored, device),
        masked=gather_targets(rows, starts, [~each for each in is_scored], device),
        rows=torch.from_numpy(row_numbers).to(device),
        inputs={name: gather(name) for name in loss.inputs},
    )


def scored_targets(datum: Datum, loss: Loss) -> Array:
    """Which targets the loss depends on: booleans (N,) or (N, K)."""
    is_scored = np.ones(np.shape(datum.target_ids), bool)
    for name in loss.masks:
        is_scored &= datum.input(name, loss.absent.get(name)) != 0
    return is_scored


def gather_targets(
    rows: Sequence[Datum], starts: Sequence[int], selected: Sequence[Array], device: torch.device
) -> Targets:
    """The selected targets of all rows, which begin at `starts` in the flattened micro-batch."""
    before = [start + np.nonzero(mask)[0] for start, mask in zip(starts, selected, strict=True)]
    ids = [np.asarray(row.target_ids)[mask] for row, mask in zip(rows, selected, strict=True)]
    positions, places = np.unique(np.concatenate(before), return_inverse=True)
    return Targets(
        torch.from_numpy(positions).to(device),
        to_tensor(ids, device).long(),
        None if len(positions) == len(places) else torch.from_numpy(places).to(device),
    )


def to_tensor(arrays: Sequence[Array], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays)).to(device)


def packed_starts(rows: Sequence[Datum]) -> list[int]:
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    return ends[:-1]


def packed_ids(rows: Sequence[Datum], device: torch.device) -> Tensor:
    ids = np.concatenate([np.asarray(row.token_ids) for row in rows])
    return torch.from_numpy(ids)[None].to(device)


def packed_positions(rows: Sequence[Datum], device: torch.device) -> Tensor:
    """transformers recognizes packed sequences by positions that restart, if there is no attention mask."""
    return torch.tensor([list(chain.from_iterable(range(len(row)) for row in rows))], device=device)


def padded_ids(rows: Sequence[Datum], width: int, device: torch.device) -> Tensor:
    return torch.tensor([[*row.token_ids, *[0] * (width - len(row))] for row in rows], device=device)


def split_rows(
    scored: Tensor, masked: Tensor | None, batch: MicroBatch, data: Sequence[Datum], loss: Loss
) -> Iterator[Tensor]:
    """For each datum of the batch, a tensor (N,) or (N, K) with the values of its targets.

    scored  (M,) values of the targets that the loss depends on
    masked  values of the other targets; None: they get NaN
    """
    selected = [torch.from_numpy(scored_targets(data[index], loss)) for index in batch.indices]
    counts = [int(each.sum()) for each in selected]
    rest = [each.numel() - count for each, count in zip(selected, counts, strict=True)]
    other = scored.new_full((sum(rest),), torch.nan) if masked is None else masked
    for is_scored, own, others in zip(
        selected, scored.cpu().split(counts), other.cpu().split(rest), strict=True
    ):
        spread = torch.empty(is_scored.shape)
        spread[is_scored], spread[~is_scored] = own, others
        yield spread
