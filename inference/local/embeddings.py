"""Embeddings: validates and tokenizes the inputs, and computes the vectors in a background task.

Knows background tasks and the input processor; the computation itself is an argument.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError

from inference.backend import Sink
from inference.engine.background import BackgroundTask, Work
from inference.engine.engine import Engine
from inference.errors import BadRequest, ServerError, TooLong
from inference.local.input_processor import InputProcessor, check_unicode
from inference.local.validation import check_ids
from inference.types import Embedded, Embedding, Event, GenerationRequest

MAX_INPUTS = 2048  # per request; OpenAI's API reference, "Create embeddings"

TokenIds = tuple[int, ...]
Vectors = list[tuple[float, ...]]
EmbedFunction = Callable[[Sequence[TokenIds]], Work[Vectors]]
EmbeddingInput = str | Sequence[int]


class EmbeddingStream:
    """A Stream of one Embedded event. The engine computes one text between two steps of the model."""

    def __init__(self, engine: Engine, embed: EmbedFunction, texts: Sequence[TokenIds]) -> None:
        self._output_queue = engine.core.output_queue
        self._lengths = [len(token_ids) for token_ids in texts]
        self._is_delivered = False
        self._is_closed = False
        self._vectors = engine.run(BackgroundTask(embed(texts)))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._is_delivered:
            raise StopIteration
        self._is_delivered = True
        try:
            return self._event(self._vectors.result())
        except CancelledError:
            raise StopIteration from None

    def start(self, sink: Sink) -> None:
        def emit() -> None:
            if not self._is_closed:
                sink(self._result())

        self._vectors.add_done_callback(lambda _: self._output_queue.post(emit))

    def close(self) -> None:
        self._is_closed = True
        self._vectors.cancel()

    def _result(self) -> list[Event] | ServerError:
        error = self._vectors.exception()
        assert error is None or isinstance(error, ServerError), "a background task raises ServerError only"
        return error or [self._event(self._vectors.result())]

    def _event(self, vectors: Vectors) -> Embedded:
        embeddings = map(Embedding, vectors, self._lengths)
        return Embedded(0, "stop", embeddings=tuple(embeddings))


def embed_inputs(
    engine: Engine, embed: EmbedFunction, input_processor: InputProcessor, inputs: Sequence[EmbeddingInput]
) -> EmbeddingStream:
    """Start computing the inputs' vectors. Raises BadRequest, TooLong, Unavailable."""
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise BadRequest("input", f"must hold 1 to {MAX_INPUTS} texts", len(inputs))
    return EmbeddingStream(engine, embed, [token_ids_of(value, input_processor) for value in inputs])


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
