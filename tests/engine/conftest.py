"""Fakes for the engine: a runner whose logits follow from the ids in its rows, and a greedy sampler."""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import NAN_LOGITS, PendingSample, SampledToken
from inference.engine.sequence import Sequence
from inference.engine.step_output import PromptLogprob, StepOutput
from inference.model.batch import Batch, CacheOp, Clear, Copy, Pooling, Resize, RunnerCapabilities, Swap
from inference.types import GenerationRequest
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request

VOCAB = 32
END = 0  # the id that ends answers in these tests
POISON = 30  # a row with this id cannot be computed
NAN = 31  # a row with this id yields NaN logits


def logits_after(token_ids: SequenceOf[int], encoder_ids: SequenceOf[int] = ()) -> list[float]:
    """A fixed function of all the ids; two prefixes rarely have the same logits."""
    state = 17
    for id in (*encoder_ids, -1, *token_ids):
        state = (state * 1_103_515_245 + id + 12_345) % 2_147_483_648
    if NAN in token_ids or NAN in encoder_ids:
        return [float("nan")] * VOCAB
    values = [(state * (place + 3) >> 7) % 997 / 100 for place in range(VOCAB)]
    values[POISON] = values[NAN] = -1.0
    return values


def hidden_sum(token_ids: SequenceOf[int]) -> list[float]:
    """The sum of the tokens' hidden states, which have two values."""
    return [float(len(token_ids)), float(sum(token_ids))]


def expected_ids(
    request: GenerationRequest, context: int, start_ids: tuple[int, ...] | None = None
) -> list[int]:
    """The ids a request yields when it is computed alone."""
    encoder_ids = () if start_ids is None else request.prompt
    token_ids = list(request.prompt if start_ids is None else start_ids)
    limit = min(len(token_ids) + request.max_tokens, context)
    first = len(token_ids)
    while len(token_ids) < limit and (len(token_ids) == first or token_ids[-1] not in request.stop_token_ids):
        values = logits_after(token_ids, encoder_ids)
        token_ids.append(values.index(max(values)))
    return token_ids[first:]


class IllegalBatch(BaseException):
    """A Batch that no runner could compute; a BaseException, so that the engine does not catch it."""


@dataclass
class FakeRunner:
    """Records the ids in each row and column, applies cache ops, raises IllegalBatch for an illegal Batch.

    on_forward  called with each Batch before its cache ops and after them; may raise
    """

    max_sequences: int = 4
    context: int = 64
    kv_capacity: int = 256
    page_size: int = 16
    vocab: int = VOCAB
    chunked_prefill: bool = True
    paged: bool = False
    overlap: bool = False
    encoder_decoder: bool = False
    pooling: bool = True
    start_ids: tuple[int, ...] = (1,)
    on_forward: Callable[[Batch, bool], None] = lambda batch, moved: None
    shape: Resize = field(default_factory=lambda: Resize(0, 0))
    memory: list[list[int | None]] = field(default_factory=list)
    encoder_inputs: list[tuple[int, ...]] = field(default_factory=list)
    states: list[int] = field(default_factory=list)  # tokens in a recurrent state, -1 if it is unusable
    hidden_sums: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    batches: list[Batch] = field(default_factory=list)

    @property
    def capabilities(self) -> RunnerCapabilities:
        return RunnerCapabilities(
            self.chunked_prefill, self.paged, self.overlap, self.encoder_decoder, self.pooling
        )

    def forward(self, batch: Batch) -> torch.Tensor:
        self.on_forward(batch, False)
        try:
            self._accept(batch)
        except (AssertionError, IndexError) as error:
            raise IllegalBatch(str(error)) from error
        self.batches.append(batch)
        self.hidden_sums = torch.tensor([self._hidden_sum(batch, index) for index in batch.pooled_rows])
        try:
            self.on_forward(batch, True)
            return self._logits(batch)
        except Exception:
            for row in batch.rows:
                self.states[row] = -1
            raise

    def _accept(self, batch: Batch) -> None:
        for op in batch.cache_ops:
            self._apply(op)
        self._check_batch(batch)
        for index, row in enumerate(batch.rows):
            self._write_row(batch, index, row)
            self.row_ids(row, batch.num_computed_tokens[index])

    def row_ids(self, row: int, columns: int) -> list[int]:
        token_ids = self.memory[row][:columns]
        assert None not in token_ids, f"row {row} was never given all of its first {columns} columns"
        return [id for id in token_ids if id is not None]

    def _apply(self, op: CacheOp) -> None:
        match op:
            case Resize():
                self._reshape(op)
            case Swap(a, b, columns):
                self._check_columns(a, b, columns)
                for column in range(columns):
                    self.memory[a][column], self.memory[b][column] = (
                        self.memory[b][column],
                        self.memory[a][column],
                    )
                self.encoder_inputs[a], self.encoder_inputs[b] = (
                    self.encoder_inputs[b],
                    self.encoder_inputs[a],
                )
                self.states[a], self.states[b] = self.states[b], self.states[a]
            case Clear(row):
                self.memory[row] = [None] * self.shape.columns
            case Copy(source, target, columns):
                assert self.chunked_prefill, "a recurrent state has no prefix to copy"
                self._check_columns(source, target, columns)
                self.memory[target][:columns] = self.memory[source][:columns]

    def _reshape(self, shape: Resize) -> None:
        assert 0 < shape.rows <= self.max_sequences and 0 < shape.columns <= self.context
        assert shape.rows * shape.columns <= self.kv_capacity
        assert shape.columns % self.page_size == 0 or shape.columns == self.context
        rows = self.memory[: shape.rows] + [[] for _ in range(shape.rows - len(self.memory))]
        blank: list[int | None] = [None] * shape.columns
        self.memory = [(row + blank)[: shape.columns] for row in rows]
        self.encoder_inputs = (self.encoder_inputs + [()] * shape.rows)[: shape.rows]
        self.states = (self.states + [0] * shape.rows)[: shape.rows]
        self.shape = shape

    def _check_columns(self, a: int, b: int, columns: int) -> None:
        assert a != b and min(a, b) >= 0 and max(a, b) < self.shape.rows
        assert 0 < columns <= self.shape.columns

    def _check_batch(self, batch: Batch) -> None:
        query_lens = [end - start for start, end in pairwise(batch.query_start_loc)]
        assert batch.query_start_loc[0] == 0 and batch.query_start_loc[-1] == len(batch.token_ids)
        assert len(query_lens) == len(batch.rows) == len(batch.num_computed_tokens) and min(query_lens) > 0
        assert batch.positions == [
            at
            for length, n in zip(batch.seq_lens, query_lens, strict=True)
            for at in range(length - n, length)
        ]
        rows = [row for row, n in zip(batch.rows, query_lens, strict=True) for _ in range(n)]
        assert batch.slot_mapping == [
            row * self.shape.columns + at for row, at in zip(rows, batch.positions, strict=True)
        ]
        assert all(a < b for a, b in pairwise(batch.rows)), "rows must ascend"
        assert all(a < b for a, b in pairwise(batch.logits_indices)), "logits_indices must ascend"
        assert all(0 <= index < len(batch.token_ids) for index in batch.logits_indices)
        assert batch.rows[-1] < self.shape.rows
        assert all(
            num_computed_tokens + n <= self.shape.columns
            for num_computed_tokens, n in zip(batch.num_computed_tokens, query_lens, strict=True)
        )
        beginning = {
            row
            for row, num_computed_tokens in zip(batch.rows, batch.num_computed_tokens, strict=True)
            if num_computed_tokens == 0
        }
        assert set(batch.encoder_inputs) == (beginning if self.encoder_decoder else set())

    def _write_row(self, batch: Batch, index: int, row: int) -> None:
        start, end, num_computed_tokens = (
            batch.query_start_loc[index],
            batch.query_start_loc[index + 1],
            batch.num_computed_tokens[index],
        )
        if not self.chunked_prefill:
            assert num_computed_tokens == 0 or end - start == 1, "this model takes one token at a time"
            assert num_computed_tokens == 0 or self.states[row] == num_computed_tokens, (
                "the recurrent state is of other tokens"
            )
        self.states[row] = num_computed_tokens + end - start
        self.encoder_inputs[row] = tuple(batch.encoder_inputs.get(row, self.encoder_inputs[row]))
        self.memory[row][num_computed_tokens : num_computed_tokens + end - start] = batch.token_ids[start:end]

    def _hidden_sum(self, batch: Batch, index: int) -> list[float]:
        start, end = batch.query_start_loc[index : index + 2]
        token_ids = self.encoder_inputs[batch.rows[index]] or batch.token_ids[start:end]
        return hidden_sum(token_ids[-1:] if batch.pooled_rows[index] == "last" else token_ids)

    def _logits(self, batch: Batch) -> torch.Tensor:
        logits = []
        for index, row in enumerate(batch.rows):
            start, end, num_computed_tokens = (
                batch.query_start_loc[index],
                batch.query_start_loc[index + 1],
                batch.num_computed_tokens[index],
            )
            token_ids = self.row_ids(row, num_computed_tokens + end - start)
            if POISON in token_ids or POISON in self.encoder_inputs[row]:
                raise ValueError("poisoned")
            row_logits_indices = [
                logits_index for logits_index in batch.logits_indices if start <= logits_index < end
            ]
            logits += [
                logits_after(
                    token_ids[: num_computed_tokens + logits_index - start + 1], self.encoder_inputs[row]
                )
                for logits_index in row_logits_indices
            ]
        return torch.tensor(logits).reshape(len(batch.logits_indices), VOCAB)


class GreedySampler:
    def sample_async(
        self, logits: torch.Tensor, sequences: SequenceOf[Sequence], checked: torch.Tensor | None = None
    ) -> PendingSample:
        assert logits.shape == (len(sequences), VOCAB)
        tokens = [self._sample_row(row, sequence) for row, sequence in zip(logits, sequences, strict=True)]
        finite = [] if checked is None else checked.isfinite().all(-1).tolist()
        return PendingSample(torch.tensor([token.id for token in tokens]), lambda: tokens, lambda: finite)

    def prompt_logprobs(
        self, logits: torch.Tensor, token_ids: SequenceOf[int], num_top_logprobs: int
    ) -> list[PromptLogprob]:
        assert logits.shape == (len(token_ids), VOCAB)
        return [PromptLogprob(float(row[id])) for row, id in zip(logits, token_ids, strict=True)]

    def _sample_row(self, row: torch.Tensor, sequence: Sequence) -> SampledToken:
        if row.isnan().any():
            return SampledToken(NAN_LOGITS)
        id = int(row.argmax())
        return SampledToken(id) if sequence.request.logprobs is None else SampledToken(id, float(row[id]))


@dataclass
class RecordingSink:
    """An OutputSink that keeps its outputs."""

    outputs: list[StepOutput] = field(default_factory=list)

    def put(self, output: StepOutput) -> None:
        assert not self.has_ended, "no output may follow the last one"
        self.outputs.append(output)

    @property
    def token_ids(self) -> list[int]:
        return [id for output in self.outputs for id in output.token_ids]

    @property
    def has_ended(self) -> bool:
        return bool(self.outputs) and bool(self.outputs[-1].finish_reason or self.outputs[-1].error)

    @property
    def finish_reason(self) -> str:
        return self.outputs[-1].finish_reason if self.outputs else ""


class Bench:
    """An engine driven step by step, and its runner."""

    def __init__(
        self,
        runner: FakeRunner,
        max_batch_tokens: int = 32,
        max_queued_tokens: int = 1_000_000,
        speculate: int = 0,
        pooling: Pooling = "mean",
    ) -> None:
        self.runner = runner
        self.engine = Engine(
            runner,
            GreedySampler(),
            EngineOptions(
                max_batch_tokens=max_batch_tokens,
                max_queued_tokens=max_queued_tokens,
                speculate=speculate,
                pooling=pooling,
            ),
        )
        self.probe = EngineProbe(self.engine)

    def submit(self, token_ids: SequenceOf[int], max_tokens: int = 8, **options: object) -> RecordingSink:
        sink = RecordingSink()
        self.submit_to(sink, token_ids, max_tokens, **options)
        return sink

    def submit_to(
        self, sink: RecordingSink, token_ids: SequenceOf[int], max_tokens: int = 8, **options: object
    ) -> int:
        return self.engine.submit([make_request(tuple(token_ids), max_tokens, **options)], [sink])[0]

    def run_until_idle(self, limit: int = 2_000) -> int:
        """Steps until no work is left; returns the number of steps."""
        for num_steps in range(limit):
            if not self.step():
                return num_steps
        raise AssertionError(f"still busy after {limit} steps")

    def step(self) -> bool:
        busy = self.engine.step()
        self.probe.check()
        return busy

    def expected_ids(self, token_ids: SequenceOf[int], max_tokens: int = 8, **options: object) -> list[int]:
        start_ids = self.runner.start_ids if self.runner.capabilities.encoder_decoder else None
        return expected_ids(
            make_request(tuple(token_ids), max_tokens, **options), self.probe.context, start_ids
        )


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    def make(max_batch_tokens: int = 32, max_queued_tokens: int = 1_000_000, **shape: object) -> Bench:
        return Bench(FakeRunner(**shape), max_batch_tokens, max_queued_tokens)

    return make
