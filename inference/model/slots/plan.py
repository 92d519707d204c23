"""A Batch as calls of the model: which rows go together, and every index the calls need.

Plain lists until the end, when they all reach the device in one copy. Knows nothing of a model.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from inference.model.batch import Batch
from inference.model.send import send
from inference.model.slots.call import Call

ALONE = -1


@dataclass(slots=True, eq=False)
class Draft:
    """A Call on the host; the lists become its tensors. places: where in batch.want each wanted token is."""

    first: int
    num_rows: int
    width: int
    columns: int
    even: bool
    fresh: bool
    ids: list[int]
    positions: list[int]
    slots: list[int]
    real: list[int]
    wanted: list[int]
    places: list[int]

    def lists(self) -> tuple[list[int], ...]:
        size = self.num_rows * self.width
        real = [] if len(self.real) == size else self.real
        wanted = [] if len(self.wanted) == size else self.wanted
        return self.ids, self.positions, self.slots, real, wanted

    def call(self, sent: Iterator[torch.Tensor]) -> Call:
        ids, positions, slots, real, wanted = (next(sent) for _ in range(5))
        size = self.num_rows * self.width
        return Call(
            first=self.first,
            num_rows=self.num_rows,
            width=self.width,
            columns=self.columns,
            even=self.even,
            fresh=self.fresh,
            ids=ids.view(self.num_rows, self.width),
            positions=positions.view(self.num_rows, self.width),
            slots=slots,
            real=None if len(self.real) == size else real,
            wanted=None if len(self.wanted) == size else wanted,
        )


def plan(
    batch: Batch, columns: int, spare: int, device: torch.device
) -> tuple[list[Call], torch.Tensor | None]:
    """The calls that compute `batch` in a memory of `columns` columns, and the order of their logits.

    spare: tokens of padding a call may hold; ALONE: a call computes one row. The calls' logits, one
    behind the other and indexed by the order, are in the order of batch.want; None: they are already.
    """
    wants = wanted_by_row(batch)
    drafts = [draft(batch, members, wants, columns) for members in groups(batch, spare)]
    places = [place for draft in drafts for place in draft.places]
    order = sorted(range(len(places)), key=places.__getitem__) if len(drafts) > 1 else []
    sent = send([ints for draft in drafts for ints in draft.lists()] + [order], device)
    return [draft.call(sent) for draft in drafts], next(sent) if order else None


def wanted_by_row(batch: Batch) -> list[list[tuple[int, int]]]:
    """For each row of the batch: its tokens wanted, (index into batch.ids, index into batch.want)."""
    found: list[list[tuple[int, int]]] = [[] for _ in batch.rows]
    for place, token in enumerate(batch.want):
        found[bisect_right(batch.starts, token) - 1].append((token, place))
    return found


def groups(batch: Batch, spare: int) -> list[list[int]]:
    """Which rows are computed together: lists of indices into batch.rows, each ascending.

    Rows of like width go together as long as a call holds at most `spare` tokens of padding: the tails of
    shorter rows, and rows in between that do not take part. Rows that begin never join rows that go on unless
    padding is allowed: a model that allows none tells the two apart by the call, not by the row.
    """
    widths = [end - start for start, end in pairwise(batch.starts)]
    fresh = [not spare and not cached for cached in batch.cached]
    found: list[list[int]] = []
    low = high = total = 0
    for i in sorted(range(len(widths)), key=lambda i: (fresh[i], widths[i])):
        a, b = min(low, batch.rows[i]), max(high, batch.rows[i])
        padding = (b - a + 1) * widths[i] - total - widths[i]
        if found and padding <= spare and fresh[i] == fresh[found[-1][0]]:
            found[-1].append(i)
            low, high, total = a, b, total + widths[i]
        else:
            found.append([i])
            low = high = batch.rows[i]
            total = widths[i]
    return [sorted(members) for members in found]


def draft(batch: Batch, members: list[int], wants: list[list[tuple[int, int]]], columns: int) -> Draft:
    """The call of some of the batch's rows. Padding is token 0 at the last position of its row."""
    first = batch.rows[members[0]]
    num_rows = batch.rows[members[-1]] - first + 1
    width = max(batch.starts[i + 1] - batch.starts[i] for i in members)
    ids, positions = [0] * (num_rows * width), [0] * (num_rows * width)
    slots: list[int] = []
    real: list[int] = []
    wanted: list[int] = []
    places: list[int] = []
    for i in members:
        start, end, cached = batch.starts[i], batch.starts[i + 1], batch.cached[i]
        at, count = (batch.rows[i] - first) * width, end - start
        ids[at : at + count] = batch.ids[start:end]
        positions[at : at + width] = [*range(cached, cached + count), *[cached + count - 1] * (width - count)]
        slots += range(batch.rows[i] * columns + cached, batch.rows[i] * columns + cached + count)
        real += range(at, at + count)
        for token, place in wants[i]:
            wanted.append(at + token - start)
            places.append(place)
    behind = {batch.cached[i] for i in members}
    return Draft(
        first=first,
        num_rows=num_rows,
        width=width,
        columns=max(positions) + 1,
        even=len(behind) == 1 and len(real) == num_rows * width,
        fresh=not any(behind),
        ids=ids,
        positions=positions,
        slots=slots,
        real=real,
        wanted=wanted,
        places=places,
    )
