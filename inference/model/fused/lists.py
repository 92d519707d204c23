"""A batch as native code is given it: integers one behind the other, in one array.

Knows pages' size; nothing of a model.
"""

from array import array
from itertools import accumulate, pairwise
from typing import NamedTuple

from inference.model.batch import Batch
from inference.native.structs import Step

BYTES = array("q").itemsize


class Lists(NamedTuple):
    """What a Step points at, by its names (step.h)."""

    ids: list[int]
    positions: list[int]
    slots: list[int]
    starts: list[int]
    lengths: list[int]
    tables: list[int]
    pages: list[int]
    want: list[int]

    def step(self) -> tuple[Step, "array[int]"]:
        """The step, and what it points into, which must live as long."""
        held = array("q")
        for each in self:
            held.fromlist(each)
        address, _ = held.buffer_info()
        places = accumulate((len(each) * BYTES for each in self), initial=address)
        pointers = dict(zip(self._fields, places, strict=False))
        return Step(len(self.ids), len(self.lengths), len(self.want), **pointers), held


def listed(batch: Batch, size: int) -> Lists:
    """The batch, whose tables are of pages of `size` tokens."""
    positions: list[int] = []
    slots: list[int] = []
    lengths: list[int] = []
    tables: list[int] = []
    pages: list[int] = []
    for (start, end), cached, table in zip(pairwise(batch.starts), batch.cached, batch.tables, strict=True):
        length = cached + end - start
        positions += range(cached, length)
        slots += [table[at // size] * size + at % size for at in range(cached, length)]
        lengths.append(length)
        tables.append(len(pages))
        pages += table
    return Lists(
        list(batch.ids), positions, slots, list(batch.starts), lengths, tables, pages, list(batch.want)
    )
