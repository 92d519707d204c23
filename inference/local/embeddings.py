"""Embeddings: submits the tokenized inputs, and delivers the vectors that the engine computes of them.

Knows the engine; not how vectors are computed.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue

from inference.backend import Sink
from inference.engine.engine import Engine
from inference.engine.step_output import StepOutput
from inference.errors import NotImplementedHere, ServerError
from inference.events import Embedded, Embedding, Event
from inference.local.embedding_inputs import EmbeddingInput, EmbeddingInputs, TokenIds
from inference.types import GenerationRequest


class EmbeddingStream:
    """A Stream of one Embedded event for each input, which follows as soon as the engine has computed it.

    The engine has `window` inputs at most at a time: what it schedules, aborts and collects stays short.

    in_background: as in GenerationRequest
    """

    def __init__(
        self, engine: Engine, inputs: Sequence[TokenIds], window: int, in_background: bool = False
    ) -> None:
        self._engine = engine
        self._window = window
        self._in_background = in_background
        self._unsubmitted = iter(enumerate(inputs))
        self._num_running = 0
        self._num_undelivered = len(inputs)
        self._sequence_ids: list[int] = []
        self._is_closed = self._has_failed = False
        self._deliveries: SimpleQueue[Embedded | ServerError | None] = SimpleQueue()
        self._sink: Sink | None = None
        self._submit()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        delivery = self._deliveries.get() if self._num_undelivered else None
        self._num_undelivered -= 1
        if delivery is None or self._is_closed:
            self._num_undelivered = 0
            raise StopIteration
        if isinstance(delivery, ServerError):
            self._num_undelivered = 0
            raise delivery
        return delivery

    def start(self, sink: Sink) -> None:
        self._sink = sink
        self._drain(sink)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._engine.abort(self._sequence_ids)
            self._deliver(None)  # wakes a thread that iterates

    def put(self, index: int, embedding: Embedding) -> None:
        """Deliver the embedding of an input, and submit further inputs once half of the window is done."""
        self._num_running -= 1
        self._deliver(Embedded(index, "stop", embedding=embedding))
        if self._num_running <= self._window // 2 and not (self._is_closed or self._has_failed):
            try:
                self._submit()
            except ServerError as error:  # the engine has stopped meanwhile
                self.fail(error)

    def fail(self, error: ServerError) -> None:
        """End with the error of an input; the other inputs are not computed."""
        if not (self._is_closed or self._has_failed):
            self._has_failed = True
            self._deliver(error)
            self._engine.abort(self._sequence_ids)

    def _submit(self) -> None:
        inputs = list(islice(self._unsubmitted, self._window - self._num_running))
        if inputs:
            self._num_running += len(inputs)
            requests = [
                GenerationRequest(token_ids, max_tokens=0, in_background=self._in_background)
                for _, token_ids in inputs
            ]
            sinks = [EmbeddingSink(self, index, len(token_ids)) for index, token_ids in inputs]
            self._sequence_ids += self._engine.submit_pooling(requests, sinks)
        if self._is_closed:  # meanwhile, by another thread
            self._engine.abort(self._sequence_ids)

    def _deliver(self, delivery: Embedded | ServerError | None) -> None:
        self._deliveries.put(delivery)
        if self._sink is not None:
            self._drain(self._sink)

    def _drain(self, sink: Sink) -> None:
        with suppress(Empty):  # another thread may drain, too
            while (delivery := self._deliveries.get_nowait()) is not None and not self._is_closed:
                sink(delivery if isinstance(delivery, ServerError) else [delivery])


@dataclass(frozen=True, slots=True)
class EmbeddingSink:
    """The OutputSink of one input."""

    stream: EmbeddingStream
    index: int
    num_tokens: int

    def put(self, output: StepOutput) -> None:
        if output.error is not None:
            self.stream.fail(output.error)
        elif output.embedding:
            self.stream.put(self.index, Embedding(output.embedding, output.embedding_norm, self.num_tokens))


def embed_inputs(
    engine: Engine,
    embedding_inputs: EmbeddingInputs,
    inputs: Sequence[EmbeddingInput],
    in_background: bool = False,
) -> EmbeddingStream:
    """Start computing the inputs' embeddings. Raises BadRequest, NotImplementedHere, TooLong, Unavailable."""
    if embedding_inputs.method.why_not:
        raise NotImplementedHere(f"this model makes no embeddings here: {embedding_inputs.method.why_not}")
    if not engine.core.runner.capabilities.pooling:
        raise NotImplementedHere(
            "this model does not return hidden states of its tokens, so it cannot compute embeddings"
        )
    token_ids = embedding_inputs.token_ids(inputs)
    return EmbeddingStream(engine, token_ids, engine.core.kv_cache_manager.max_sequences, in_background)
