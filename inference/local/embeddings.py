"""Embeddings: validates and tokenizes the inputs, and collects the vectors that the engine computes of them.

Knows the engine and the input processor; not how vectors are computed.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass

from inference.backend import Sink
from inference.engine.engine import Engine
from inference.engine.sequence import StepOutput
from inference.errors import BadRequest, NotImplementedHere, ServerError, TooLong
from inference.local.input_processor import InputProcessor, check_unicode
from inference.types import Embedded, Embedding, Event, GenerationRequest
from inference.validation import check_ids

MAX_INPUTS = 2048  # per request; OpenAI's API reference, "Create embeddings"

TokenIds = tuple[int, ...]
EmbeddingInput = str | Sequence[int]


class EmbeddingStream:
    """A Stream of one Embedded event, which follows when the engine has computed all inputs."""

    def __init__(self, engine: Engine, inputs: Sequence[TokenIds]) -> None:
        self._engine = engine
        self._is_delivered = False
        self._is_closed = False
        self._embeddings: list[Embedding | None] = [None] * len(inputs)
        self._num_missing = len(inputs)
        self._event: Future[Embedded] = Future()
        requests = [GenerationRequest(token_ids, max_tokens=0) for token_ids in inputs]
        sinks = [EmbeddingSink(self, index, len(token_ids)) for index, token_ids in enumerate(inputs)]
        self._sequence_ids = engine.submit_pooling(requests, sinks)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._is_delivered:
            raise StopIteration
        self._is_delivered = True
        try:
            return self._event.result()
        except CancelledError:
            raise StopIteration from None

    def start(self, sink: Sink) -> None:
        def emit(event: Future[Embedded]) -> None:
            if not self._is_closed:
                error = event.exception()
                assert error is None or isinstance(error, ServerError), "outputs have ServerErrors only"
                sink(error or [event.result()])

        self._event.add_done_callback(emit)

    def close(self) -> None:
        self._is_closed = True
        if self._event.cancel():
            self._engine.abort(self._sequence_ids)

    def put(self, index: int, embedding: Embedding) -> None:
        """Store the embedding of an input; the last one completes the event."""
        self._embeddings[index] = embedding
        self._num_missing -= 1
        if not self._num_missing:
            embeddings = tuple(each for each in self._embeddings if each is not None)
            with suppress(InvalidStateError):  # cancelled or failed meanwhile
                self._event.set_result(Embedded(0, "stop", embeddings=embeddings))

    def fail(self, error: ServerError) -> None:
        """End with the error of an input; the other inputs are not computed."""
        with suppress(InvalidStateError):
            self._event.set_exception(error)
            self._engine.abort(self._sequence_ids)


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
    engine: Engine, input_processor: InputProcessor, inputs: Sequence[EmbeddingInput]
) -> EmbeddingStream:
    """Start computing the inputs' embeddings. Raises BadRequest, NotImplementedHere, TooLong, Unavailable."""
    if not engine.core.runner.capabilities.pooling:
        raise NotImplementedHere(
            "this model does not return hidden states of its tokens, so it cannot compute embeddings"
        )
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise BadRequest("input", f"must hold 1 to {MAX_INPUTS} texts", len(inputs))
    return EmbeddingStream(engine, [token_ids_of(value, input_processor) for value in inputs])


def token_ids_of(value: EmbeddingInput, input_processor: InputProcessor) -> TokenIds:
    """The token ids of an input, tokenized like a prompt. Raises BadRequest, TooLong."""
    if not value:
        raise BadRequest("input", "must not hold an empty text")
    if isinstance(value, str):
        check_unicode(value, "input")
    else:
        check_ids("input", value, input_processor.vocab)
    try:
        return input_processor.prompt_token_ids(GenerationRequest(value, max_tokens=0))
    except TooLong as error:
        raise TooLong("input", error.limit, error.length, error.rule, error.unit) from None
