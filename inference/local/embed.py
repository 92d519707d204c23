"""Texts to vectors, as a Backend is asked for them: checked and tokenised here, computed as an errand.

Knows the engine's errands and how prompts become ids; the computation is handed in.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future

from inference.backend import Sink
from inference.engine.engine import Engine
from inference.engine.errand import Errand, Work
from inference.errors import BadRequest, ServerError, TooLong
from inference.local.limits import check_ids
from inference.local.prompt import Prompts, check_unicode
from inference.types import Embedded, Embedding, Event, GenerationRequest

MOST = 2048  # inputs of one call, as in OpenAI's API reference, "Create embeddings"

Ids = tuple[int, ...]
Vectors = list[tuple[float, ...]]
Embed = Callable[[Sequence[Ids]], Work[Vectors]]
Input = str | Sequence[int]


class EmbeddingStream:
    """A Stream of one Embedded: the vectors of `texts`, computed one a turn of the engine's loop."""

    def __init__(self, engine: Engine, embed: Embed, texts: Sequence[Ids]) -> None:
        self._outbox = engine.loop.outbox
        self._lengths = [len(ids) for ids in texts]
        self._told = False
        self._vectors = engine.run(Errand(embed(texts)))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._told:
            raise StopIteration
        self._told = True
        try:
            return self._event(self._vectors.result())
        except CancelledError:
            raise StopIteration from None

    def start(self, sink: Sink) -> None:
        def tell(done: Future[Vectors]) -> None:
            self._outbox.post(lambda: None if done.cancelled() else sink(self._arrived(done)))

        self._vectors.add_done_callback(tell)

    def close(self) -> None:
        self._vectors.cancel()

    def _arrived(self, done: Future[Vectors]) -> list[Event] | ServerError:
        error = done.exception()
        assert error is None or isinstance(error, ServerError), "an errand ends with nothing else"
        return error or [self._event(done.result())]

    def _event(self, vectors: Vectors) -> Embedded:
        found = map(Embedding, vectors, self._lengths)
        return Embedded(0, "stop", embeddings=tuple(found))


def embedded(engine: Engine, embed: Embed, prompts: Prompts, inputs: Sequence[Input]) -> EmbeddingStream:
    """What will tell a vector for each input. Raises ServerError."""
    if not 0 < len(inputs) <= MOST:
        raise BadRequest("input", f"must hold 1 to {MOST} texts", len(inputs))
    return EmbeddingStream(engine, embed, [ids_of(each, prompts) for each in inputs])


def ids_of(given: Input, prompts: Prompts) -> Ids:
    """The tokens of an input, those of a prompt of the same text. Raises BadRequest, TooLong."""
    if not given:
        raise BadRequest("input", "must not hold an empty text")
    if isinstance(given, str):
        check_unicode(given, "input")
    else:
        check_ids("input", given, prompts.vocab)
    try:
        return prompts.ids(GenerationRequest(given, max_tokens=0))
    except TooLong as error:
        raise TooLong("input", error.limit, error.tokens, error.rule) from None
