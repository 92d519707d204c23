"""The interface between a remote backend and what an upstream speaks: requests to send, and how to read them.

One file for each kind of server implements it: openai.py, tgi.py, llamastack.py, gradio/ and link.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from inference.events import Embedding, Event
from inference.remote.event_stream import ServerSentEvent
from inference.tokenized import Tokenized
from inference.types import GenerationRequest


class UpstreamTokenizer(Protocol):
    """The tokenizer of a server that shares it, or its files on this machine.

    Every method but `close` raises UpstreamFailure, NotImplementedHere or BadRequest.
    """

    async def tokenize(self, request: GenerationRequest) -> Tokenized:
        """The request's prompt as the server reads it."""
        ...

    async def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        """As Backend.encode_texts."""
        ...

    async def detokenize(self, token_ids: Sequence[int], show_special: bool) -> str: ...

    async def config(self) -> Mapping[str, Any]:
        """The server's tokenizer_config.json."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class AnswerReader(Protocol):
    """Turns the events of one response into those of a Stream. Raises UpstreamFailure."""

    def read(self, event: ServerSentEvent) -> list[Event]:
        """The events that one server-sent event stands for."""
        ...

    def read_document(self, body: bytes) -> list[Event]:
        """The events of a response that is one JSON document: the upstream did not stream."""
        ...

    def finish(self) -> list[Event]:
        """The last events; called at the end of the response. Raises if an answer has no finish reason."""
        ...

    def finish_at_deadline(self) -> list[Event]:
        """The end of the answers that have not finished, at the request's deadline."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the rest of the response is of no interest."""
        ...


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """A POST to the upstream, or a WebSocket, and what reads its response: a new reader each time it is sent.

    stream_path  the path of the answer's events, by the body of the response; None: they are the response
    reply        of a WebSocket: what is sent after a message, or None; the messages are the answer's events
    """

    path: str
    body: bytes
    make_reader: Callable[[], AnswerReader]
    stream_path: Callable[[bytes], str] | None = None
    reply: Callable[[bytes], bytes | None] | None = None


class UpstreamApi(Protocol):
    """How a kind of server is called."""

    @property
    def can_resume(self) -> bool:
        """Whether the server goes on with an answer that another one has begun."""
        ...

    @property
    def ends_at_deadline(self) -> bool:
        """Whether the server itself ends an answer at the request's deadline, with all of its text."""
        ...

    def calls(self, request: GenerationRequest) -> Sequence[UpstreamCall]:
        """The calls that together answer the request. Raises BadRequest for what the upstream cannot do."""
        ...

    def adapt(self, calls: Sequence[UpstreamCall], refusal: str) -> bool:
        """Leave out from now on what the server has refused in these calls, with status 400.

        Returns whether the request can be sent again without it.
        """
        ...

    def embedding_call(self, inputs: Sequence[str | Sequence[int]]) -> tuple[str, bytes]:
        """Path and body of a request for the inputs' vectors. Raises NotImplementedHere."""
        ...

    def read_embeddings(self, body: bytes) -> tuple[Embedding, ...]:
        """The vectors in a response. Raises UpstreamFailure."""
        ...
