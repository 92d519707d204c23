"""The interface between the API and the inference: a Backend accepts requests, a Stream carries their events.

A dialect in api/ knows these protocols, types.py and events.py; it does not know an implementation.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from inference.backend_info import BackendLoad, ModelInfo
from inference.errors import ServerError
from inference.events import Event
from inference.lora.adapter import AdapterCard
from inference.tokenized import Tokenized
from inference.types import GenerationRequest

# Receives events. Returns what is set once it has room for more, for a stream that can wait; None: it has.
Sink = Callable[[list[Event] | ServerError], asyncio.Event | None]


class Stream(Protocol):
    """The events of one request. For each answer index: Started, then Token and CallDelta, then Finished.

    Either iterate the stream from one thread, or call `start` to have events pushed; never both. The stream
    ends after the last Finished. A ServerError ends it early: iteration raises it, `start` passes it to the
    sink.
    """

    def __iter__(self) -> Iterator[Event]: ...

    def __next__(self) -> Event: ...

    def start(self, sink: Sink) -> None:
        """Call `sink` with the events of each step, on the event loop (see Backend.attach).

        Events that already exist are passed at once. The sink is not called after `close`.
        """
        ...

    def close(self) -> None:
        """Cancel the unfinished answers. Idempotent; from any thread, at any time."""
        ...


class Adapters(Protocol):
    """The adapters of a backend. Every method may be called from any thread."""

    def cards(self) -> Sequence[AdapterCard]:
        """The adapters that requests may name, in the order in which they were loaded."""
        ...

    def load(self, name: str, folder: Path, source: str, *, replace: bool = False) -> AdapterCard:
        """Check, read and try the adapter in `folder`, then list it. Blocks; requests go on.

        replace: it may take the place of an adapter of this name, whose running requests keep their weights.
        Raises BadRequest with the key or the limit, AdapterExists, and Overloaded; nothing has changed then.
        """
        ...

    def folder_of(self, name: str) -> Path:
        """The folder that the adapter was read from. Raises NotFound."""
        ...

    def unload(self, name: str) -> None:
        """Take the adapter off the list. Running requests keep its weights to their end. Raises NotFound."""
        ...


class Backend(Protocol):
    def info(self) -> ModelInfo: ...

    def unavailable_reason(self) -> str:
        """Why the backend cannot answer requests; empty if it can."""
        ...

    def generate(self, request: GenerationRequest) -> Stream:
        """Check the request and queue it. Raises ServerError before anything is generated."""
        ...

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        """The request's prompt as `generate` reads it; may exceed the context. Raises BadRequest."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]]:
        """The ids of each text, without special tokens in front of it or behind it. Raises BadRequest."""
        ...

    def detokenize(self, token_ids: Sequence[int], show_special: bool = True) -> str:
        """The text of the ids, with or without the special tokens among them. Raises BadRequest."""
        ...

    def tokenizer_config(self) -> Mapping[str, Any]:
        """The tokenizer's configuration as in tokenizer_config.json, with the chat template in use."""
        ...

    def embed(self, inputs: Sequence[str | Sequence[int]], *, in_background: bool = False) -> Stream:
        """A normalized vector for each input (text or token ids), in a stream of Embedded events.

        in_background: as in GenerationRequest; a model in another process does not know it.
        Raises BadRequest for an empty or too long input, NotImplementedHere if the model makes no embeddings.
        """
        ...

    def adapters(self) -> Adapters | None:
        """The adapters that requests may name; None: the backend has none and can load none."""
        ...

    def current_load(self) -> BackendLoad:
        """How busy it is now."""
        ...

    def seconds_until_end(self) -> float | None:
        """Seconds until one of the running answers is expected to end; None if unknown."""
        ...

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver the events of all streams on the server's event loop. Called once, on the loop."""
        ...

    def close(self) -> None:
        """Stop generating, end every stream with Unavailable, and end the model's other processes."""
        ...
