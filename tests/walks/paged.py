"""A fake runner whose memory is in pages: what it answers is what it reads there through the tables.

As keys and values do, what stands for a token tells of all before it: a page is of use behind its own
beginning only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch

from inference.model.batch import Batch, Clear
from tests.engine.conftest import NAN, VOCAB, Illegal
from tests.walks.witness import wanted

Ids = tuple[int, ...]


@dataclass
class PagedWitness:
    """Holds for each token of a page the ids up to it, and raises Illegal for a Batch no runner could do.

    fault  called with each Batch, before it writes and after; may raise
    early  steps begun before their ids were known
    """

    max_rows: int
    context: int
    area: int
    step: int = 4
    vocab: int = VOCAB
    resumes: bool = True
    paged: bool = True
    overlaps: bool = False
    encodes: bool = False
    start_ids: tuple[int, ...] = ()
    fault: Callable[[Batch, bool], None] = lambda batch, moved: None
    pages: list[list[Ids]] = field(init=False)
    early: int = 0

    def __post_init__(self) -> None:
        self.pages = [[()] * self.step for _ in range(self.area // self.step)]

    def forward(self, batch: Batch) -> torch.Tensor:
        self.fault(batch, False)
        if batch.coming is not None:
            self.early += 1
            batch = replace(batch, ids=batch.coming.tolist())
        try:
            assert batch.coming is None or (self.overlaps and min(batch.ids) >= 0), "ids that are none"
            for move in batch.moves:
                assert isinstance(move, Clear), "pages are never moved"
                self.pages[move.row] = [()] * self.step
            self._examine(batch)
            lines = [self._take(batch, index) for index in range(len(batch.rows))]
        except (AssertionError, IndexError) as error:
            raise Illegal(str(error)) from error
        self.fault(batch, True)
        logits = [
            row
            for index, ids in enumerate(lines)
            for row in wanted(batch, index, ids, spoilt=self._spoilt(batch.tables[index]))
        ]
        return torch.tensor(logits).reshape(len(batch.want), VOCAB)

    def held(self, table: Sequence[int], count: int) -> Ids:
        """The first `count` tokens that stand in these pages."""
        read = [self.pages[table[at // self.step]][at % self.step] for at in range(count)]
        ids = read[-1] if read else ()
        assert read == [ids[: at + 1] for at in range(count)], "these pages were not written for each other"
        return ids

    def _examine(self, batch: Batch) -> None:
        taken = [end - start for start, end in pairwise(batch.starts)]
        assert batch.starts[0] == 0 and batch.starts[-1] == len(batch.ids)
        assert len(taken) == len(batch.rows) == len(batch.cached) == len(batch.tables) and min(taken) > 0
        assert len(set(batch.rows)) == len(batch.rows) <= self.max_rows, "a row twice"
        assert all(0 <= row < self.max_rows for row in batch.rows)
        assert all(a < b for a, b in pairwise(batch.rows)), "rows must ascend"
        assert all(a < b for a, b in pairwise(batch.want)), "want must ascend"
        written = [
            page
            for table, cached, n in zip(batch.tables, batch.cached, taken, strict=True)
            for page in table[cached // self.step : -(-(cached + n) // self.step)]
        ]
        assert len(set(written)) == len(written), "two write to one page"
        read = {
            page
            for table, n in zip(batch.tables, batch.cached, strict=True)
            for page in table[: n // self.step]
        }
        assert not read & set(written), "one writes where another reads"

    def _spoilt(self, table: Sequence[int]) -> bool:
        """Whether any of these pages holds what is no number, were it behind what is read: 0 × nan is nan."""
        return any(NAN in ids for page in table for ids in self.pages[page])

    def _take(self, batch: Batch, index: int) -> Ids:
        start, end, cached = batch.starts[index], batch.starts[index + 1], batch.cached[index]
        table, ids = batch.tables[index], self.held(batch.tables[index], batch.cached[index])
        for at, id in enumerate(batch.ids[start:end], cached):
            ids = (*ids, id)
            self.pages[table[at // self.step]][at % self.step] = ids
        return ids
