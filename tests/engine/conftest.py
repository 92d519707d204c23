"""Fakes for the id floor: a runner whose logits follow from the ids its rows hold, and a greedy sampler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.sampler import BROKEN, Choice, Drawn
from inference.engine.sequence import Record, Score, Task
from inference.engine.sequence import Sequence as Answer
from inference.model.batch import Batch, Clear, Copy, Move, Shape, Swap

VOCAB = 32
END = 0  # the id that ends answers in these tests
POISON = 30  # a row that holds it cannot be computed
NAN = 31  # a row that holds it yields logits that are not numbers


def logits_after(ids: Sequence[int], source: Sequence[int] = ()) -> list[float]:
    """A fixed function of all the ids, that no two prefixes are likely to share."""
    state = 17
    for id in (*source, -1, *ids):
        state = (state * 1_103_515_245 + id + 12_345) % 2_147_483_648
    if NAN in ids or NAN in source:
        return [float("nan")] * VOCAB
    values = [(state * (place + 3) >> 7) % 997 / 100 for place in range(VOCAB)]
    values[POISON] = values[NAN] = -1.0
    return values


def alone(task: Task, context: int, start_ids: tuple[int, ...] | None = None) -> list[int]:
    """The ids a task yields when nothing else is computed and nothing moves."""
    source = () if start_ids is None else task.ids
    ids = list(task.ids if start_ids is None else start_ids)
    limit = min(len(ids) + task.max_tokens, context)
    first = len(ids)
    while len(ids) < limit and (len(ids) == first or ids[-1] not in task.ends):
        values = logits_after(ids, source)
        ids.append(values.index(max(values)))
    return ids[first:]


class Illegal(BaseException):
    """A Batch that no runner could compute: the engine's mistake, which no net of its own may catch."""


@dataclass
class FakeRunner:
    """Holds the ids of each row and column, carries out every move, raises Illegal for an illegal Batch.

    fault   called with each Batch, before its moves and after them; may raise
    """

    max_rows: int = 4
    context: int = 64
    area: int = 256
    step: int = 16
    vocab: int = VOCAB
    resumes: bool = True
    paged: bool = False
    overlaps: bool = False
    encodes: bool = False
    start_ids: tuple[int, ...] = (1,)
    fault: Callable[[Batch, bool], None] = lambda batch, moved: None
    shape: Shape = field(default_factory=lambda: Shape(0, 0))
    memory: list[list[int | None]] = field(default_factory=list)
    sources: list[tuple[int, ...]] = field(default_factory=list)
    states: list[int] = field(default_factory=list)  # tokens in a recurrent state, -1 where it is spoilt
    batches: list[Batch] = field(default_factory=list)

    def forward(self, batch: Batch) -> torch.Tensor:
        self.fault(batch, False)
        try:
            self._accept(batch)
        except (AssertionError, IndexError) as error:
            raise Illegal(str(error)) from error
        self.batches.append(batch)
        try:
            self.fault(batch, True)
            return self._logits(batch)
        except Exception:
            for row in batch.rows:
                self.states[row] = -1
            raise

    def _accept(self, batch: Batch) -> None:
        for move in batch.moves:
            self._move(move)
        self._examine(batch)
        for index, row in enumerate(batch.rows):
            self._take(batch, index, row)
            self.held(row, batch.cached[index])

    def held(self, row: int, columns: int) -> list[int]:
        ids = self.memory[row][:columns]
        assert None not in ids, f"row {row} was never given all of its first {columns} columns"
        return [id for id in ids if id is not None]

    def _move(self, move: Move) -> None:
        match move:
            case Shape():
                self._reshape(move)
            case Swap(a, b, columns):
                self._within(a, b, columns)
                for column in range(columns):
                    self.memory[a][column], self.memory[b][column] = (
                        self.memory[b][column],
                        self.memory[a][column],
                    )
                self.sources[a], self.sources[b] = self.sources[b], self.sources[a]
                self.states[a], self.states[b] = self.states[b], self.states[a]
            case Clear(row):
                self.memory[row] = [None] * self.shape.columns
            case Copy(source, target, columns):
                assert self.resumes, "a recurrent state has no prefix to copy"
                self._within(source, target, columns)
                self.memory[target][:columns] = self.memory[source][:columns]

    def _reshape(self, shape: Shape) -> None:
        assert 0 < shape.rows <= self.max_rows and 0 < shape.columns <= self.context
        assert shape.rows * shape.columns <= self.area
        assert shape.columns % self.step == 0 or shape.columns == self.context
        rows = self.memory[: shape.rows] + [[] for _ in range(shape.rows - len(self.memory))]
        blank: list[int | None] = [None] * shape.columns
        self.memory = [(row + blank)[: shape.columns] for row in rows]
        self.sources = (self.sources + [()] * shape.rows)[: shape.rows]
        self.states = (self.states + [0] * shape.rows)[: shape.rows]
        self.shape = shape

    def _within(self, a: int, b: int, columns: int) -> None:
        assert a != b and min(a, b) >= 0 and max(a, b) < self.shape.rows
        assert 0 < columns <= self.shape.columns

    def _examine(self, batch: Batch) -> None:
        taken = [end - start for start, end in pairwise(batch.starts)]
        assert batch.starts[0] == 0 and batch.starts[-1] == len(batch.ids)
        assert len(taken) == len(batch.rows) == len(batch.cached) and min(taken) > 0
        assert all(a < b for a, b in pairwise(batch.rows)), "rows must ascend"
        assert all(a < b for a, b in pairwise(batch.want)), "want must ascend"
        assert all(0 <= index < len(batch.ids) for index in batch.want)
        assert batch.rows[-1] < self.shape.rows
        assert all(cached + n <= self.shape.columns for cached, n in zip(batch.cached, taken, strict=True))
        beginning = {row for row, cached in zip(batch.rows, batch.cached, strict=True) if cached == 0}
        assert set(batch.sources) == (beginning if self.encodes else set())

    def _take(self, batch: Batch, index: int, row: int) -> None:
        start, end, cached = batch.starts[index], batch.starts[index + 1], batch.cached[index]
        if not self.resumes:
            assert cached == 0 or end - start == 1, "this model takes one token at a time"
            assert cached == 0 or self.states[row] == cached, "the recurrent state is of other tokens"
        self.states[row] = cached + end - start
        self.sources[row] = tuple(batch.sources.get(row, self.sources[row]))
        self.memory[row][cached : cached + end - start] = batch.ids[start:end]

    def _logits(self, batch: Batch) -> torch.Tensor:
        logits = []
        for index, row in enumerate(batch.rows):
            start, end, cached = batch.starts[index], batch.starts[index + 1], batch.cached[index]
            ids = self.held(row, cached + end - start)
            if POISON in ids or POISON in self.sources[row]:
                raise ValueError("poisoned")
            wanted = [want for want in batch.want if start <= want < end]
            logits += [logits_after(ids[: cached + want - start + 1], self.sources[row]) for want in wanted]
        return torch.tensor(logits).reshape(len(batch.want), VOCAB)


class GreedySampler:
    def draw(self, logits: torch.Tensor, sequences: Sequence[Answer]) -> Drawn:
        assert logits.shape == (len(sequences), VOCAB)
        made = [self._pick(row, sequence) for row, sequence in zip(logits, sequences, strict=True)]
        return Drawn(torch.tensor([choice.id for choice in made]), lambda: made)

    def score(self, logits: torch.Tensor, ids: Sequence[int], tops: int) -> list[Score]:
        assert logits.shape == (len(ids), VOCAB)
        return [Score(float(row[id])) for row, id in zip(logits, ids, strict=True)]

    def _pick(self, row: torch.Tensor, sequence: Answer) -> Choice:
        if row.isnan().any():
            return Choice(BROKEN)
        id = int(row.argmax())
        return Choice(id) if sequence.task.logprobs is None else Choice(id, float(row[id]))


@dataclass
class Box:
    """An outlet that keeps what it is given."""

    records: list[Record] = field(default_factory=list)

    def put(self, record: Record) -> None:
        assert not self.ended, "nothing may follow the end"
        self.records.append(record)

    @property
    def ids(self) -> list[int]:
        return [id for record in self.records for id in record.ids]

    @property
    def ended(self) -> bool:
        return bool(self.records) and bool(self.records[-1].reason or self.records[-1].error)

    @property
    def reason(self) -> str:
        return self.records[-1].reason if self.records else ""


class Bench:
    """An engine to be driven step by step, and its runner."""

    def __init__(
        self, runner: FakeRunner, budget: int = 32, waiting: int = 1_000_000, drafts: int = 0
    ) -> None:
        self.runner = runner
        self.engine = Engine(
            runner, GreedySampler(), max_batch_tokens=budget, max_queued_tokens=waiting, drafts=drafts
        )

    def submit(self, ids: Sequence[int], max_tokens: int = 8, **options: object) -> Box:
        box = Box()
        self.submit_to(box, ids, max_tokens, **options)
        return box

    def submit_to(self, box: Box, ids: Sequence[int], max_tokens: int = 8, **options: object) -> int:
        return self.engine.submit([Task(tuple(ids), max_tokens, **options)], [box])[0]

    def finish(self, limit: int = 2_000) -> int:
        """Steps taken until nothing is left to do."""
        for taken in range(limit):
            if not self.step():
                return taken
        raise AssertionError(f"still busy after {limit} steps")

    def step(self) -> bool:
        busy = self.engine.step()
        self.engine.loop.seating.check()
        return busy

    def alone(self, ids: Sequence[int], max_tokens: int = 8, **options: object) -> list[int]:
        start_ids = self.runner.start_ids if self.runner.encodes else None
        return alone(Task(tuple(ids), max_tokens, **options), self.engine.loop.seating.context, start_ids)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    def make(budget: int = 32, waiting: int = 1_000_000, **shape: object) -> Bench:
        return Bench(FakeRunner(**shape), budget, waiting)

    return make
