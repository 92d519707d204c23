"""The one interface the API sees: a Backend generates, a Stream is what it generates.

Local models and remote servers implement it alike; a dialect never knows which one answers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from inference.errors import ServerError
from inference.types import Event, GenerationRequest, Load, ModelInfo, Tokenized

Sink = Callable[[list[Event] | ServerError], None]


class Stream(Protocol):
    """The events of one request, in order: Started, Token and CallDelta, Finished, for each answer's index.

    Iterate it from one thread, or `start` it and be called: never both. Ends after the last Finished;
    a ServerError ends it early (raised by iteration, handed to the sink by `start`).
    """

    def __iter__(self) -> Iterator[Event]: ...

    def __next__(self) -> Event: ...

    def start(self, sink: Sink) -> None:
        """Have `sink` called with each step's events, on the thread that delivers (the server's event loop).

        What came before is handed over at once. The sink is not called after `close`.
        """
        ...

    def close(self) -> None:
        """Cancel what is still being generated. Idempotent, from any thread, at any time."""
        ...


class Backend(Protocol):
    def info(self) -> ModelInfo: ...

    def ready(self) -> str:
        """Empty when requests are answered, else why they are not."""
        ...

    def generate(self, request: GenerationRequest) -> Stream:
        """Check the request and queue it. Raises ServerError; nothing has been generated then."""
        ...

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        """The request's prompt as `generate` would have it, or longer than the context. Raises BadRequest."""
        ...

    def detokenize(self, ids: Sequence[int], special: bool = True) -> str:
        """The text of the ids; `special`: with the special tokens among them. Raises BadRequest."""
        ...

    def embed(self, inputs: Sequence[str | Sequence[int]]) -> Stream:
        """A vector of length 1 for each input, text or token ids: a stream of one event, Embedded.

        Raises ServerError: BadRequest for an empty or too long input, NotImplementedHere where the model has
        no vectors to give.
        """
        ...

    def load(self) -> Load: ...

    def deliver_with(self, post: Callable[[Callable[[], None]], None]) -> None:
        """Deliver every stream's events by `post(callback)`, once a step, e.g. loop.call_soon_threadsafe."""
        ...

    def close(self) -> None:
        """Stop generating, end every stream with Unavailable, free the model."""
        ...
