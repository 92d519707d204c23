"""One call of the model with the tokens of all rows on one line, and where in the pages each belongs.

While the model runs, its line is current: attention reads it. Knows plain indices; nothing of a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from inference.model.batch import Batch
from inference.model.current import Current
from inference.model.send import send
from inference.model.split.copies import Copies


class Span(NamedTuple):
    """A row's part of the line: tokens [start, end) are the last of `length` that stand in its pages."""

    start: int
    end: int
    length: int
    pages: Sequence[int]


@dataclass(slots=True, eq=False)
class Line:
    """R rows take T tokens in all.

    ids        (1, T)
    positions  (1, T)
    slots      (T,)    page × size + place in the page: where each token's keys and values go
    wanted     (W,)    which of the T tokens' logits are wanted; None: all
    spans      (R,)    the rows, on the host
    size       tokens of a page
    picked     the output layer was given the wanted tokens alone
    derived    what a kernel makes of the spans for all layers of the step, under a name of its own
    copies     of these tensors, for layers that are elsewhere
    """

    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    wanted: torch.Tensor | None
    spans: list[Span]
    size: int
    picked: bool = False
    derived: dict[str, Any] = field(default_factory=dict)
    copies: Copies = field(default_factory=Copies)


def lined(batch: Batch, size: int, device: torch.device) -> Line:
    """The batch as one line, by one copy to the device."""
    spans = [
        Span(start, end, cached + end - start, pages)
        for (start, end), cached, pages in zip(
            pairwise(batch.starts), batch.cached, batch.tables, strict=True
        )
    ]
    positions: list[int] = []
    slots: list[int] = []
    for start, end, length, pages in spans:
        first = length - (end - start)
        positions += range(first, length)
        slots += [pages[at // size] * size + at % size for at in range(first, length)]
    every = len(batch.want) == len(batch.ids)
    known = [] if batch.coming is not None else list(batch.ids)
    ids, where, put, wanted = send([known, positions, slots, [] if every else list(batch.want)], device)
    ids = ids if batch.coming is None else batch.coming
    return Line(ids[None], where[None], put, None if every else wanted, spans, size)


_lines = Current[Line]()
current, computing = _lines.get, _lines.computing
