"""A Backend that plays a script. It knows the interface of inference/backend.py, and nothing of models."""

import asyncio
import math
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from inference.backend import Backend, Sink
from inference.backend_info import BackendLoad, ModelInfo
from inference.errors import BadRequest, NotFound, ServerError
from inference.events import Embedded, Embedding, Event, Finished, Started, Token
from inference.lora.adapter import AdapterCard
from inference.models import ModelEntry, Models
from inference.tokenized import Tokenized, TokenSpan
from inference.types import GenerationRequest
from tests.fakes.script_player import Delivery, ScriptPlayer


@runtime_checkable
class Gate(Protocol):
    """A threading.Event, or one of another process: the script goes on when it is set."""

    def is_set(self) -> bool: ...


ScriptStep = Event | ServerError | float | Gate  # a float is a pause in seconds
Script = list[ScriptStep]


def say(*texts: str, index: int = 0, pause_s: float = 0.0, reason: str = "stop") -> Script:
    """The events of one answer made of `texts`, one token each, with a pause before each."""
    tokens = [Token(index, number, text, logprob=-0.5, spelling=text) for number, text in enumerate(texts)]
    script: Script = [Started(index, prompt_tokens=3, cached_tokens=0)]
    for token in tokens:
        script += [pause_s, token] if pause_s else [token]
    return [*script, Finished(index, reason, num_tokens=len(tokens))]


def make_models(backend: Backend, *names: str) -> Models:
    """The backend's model alone, under its id and `names`."""
    return Models(ModelEntry(backend, (backend.info().id, *names)))


class FakeAdapters:
    """Adapters whose folders are never read, except that a folder must have an adapter_config.json.

    loads  the folders so far, with the names
    """

    def __init__(self, *names: str) -> None:
        self.loads: list[tuple[str, Path]] = []
        self._cards: dict[str, AdapterCard] = {}
        for name in names:
            self._add(name, f"/adapters/{name}")

    def cards(self) -> tuple[AdapterCard, ...]:
        return tuple(self._cards.values())

    def load(self, name: str, folder: Path, source: str, *, replace: bool = False) -> AdapterCard:
        if not (folder / "adapter_config.json").is_file():
            raise BadRequest("adapter_config.json", "is missing in the adapter's folder")
        if name in self._cards and not replace:
            raise BadRequest("lora_name", "is taken", name)
        self.loads.append((name, folder))
        return self._add(name, source)

    def folder_of(self, name: str) -> Path:
        return dict(self.loads)[name]

    def unload(self, name: str) -> None:
        if self._cards.pop(name, None) is None:
            raise NotFound(f"Adapter {name!r} not found")

    def _add(self, name: str, source: str) -> AdapterCard:
        number = len(self.loads) + len(self._cards) + 1
        self._cards[name] = AdapterCard(name, source, number, rank=8, nbytes=1000, created=1700000001)
        return self._cards[name]


class FakeBackend:
    """Plays `script` (or what `script(request)` returns) for every request, one step every `pace_s`.

    error     raised at submission, if set
    lora      the adapters; None: it serves none
    embed_s   seconds that an embedding takes
    embeddings_in_background  of each request for embeddings so far, whether it was in the background
    requests  the requests so far
    streams   the streams returned so far, each with `closed_at`
    """

    def __init__(
        self,
        script: Script | Callable[[GenerationRequest], Script] | None = None,
        error: ServerError | None = None,
        pace_s: float = 0.001,
        model_id: str = "fake/model",
    ) -> None:
        self.script = say("Hello", " world") if script is None else script
        self.error = error
        self.pace_s = pace_s
        self.model_id = model_id
        self.unready_reason = ""
        self.embed_s = 0.0
        self.embeddings_in_background: list[bool] = []
        self.end_s: float | None = None
        self.embedding_sizes: Sequence[int] = (4,)
        self.lora: FakeAdapters | None = None
        self.requests: list[GenerationRequest] = []
        self.streams: list[FakeStream] = []
        self.post: Callable[[Callable[[], None]], object] = lambda call: call()

    def reset(self) -> None:
        """Become as new: what it plays ends, and what a test has set on it is gone, methods too."""
        self.close()
        for stream in self.streams:
            stream.close()
        self.__dict__ = vars(FakeBackend())

    @cached_property
    def _player(self) -> ScriptPlayer:
        return ScriptPlayer(self)

    @property
    def open_streams(self) -> list["FakeStream"]:
        return [stream for stream in self.streams if not stream.closed_at]

    def info(self) -> ModelInfo:
        return ModelInfo(
            id=self.model_id,
            context=128,
            vocab=1000,
            created=1700000000,
            embedding_sizes=self.embedding_sizes,
        )

    def unavailable_reason(self) -> str:
        return self.unready_reason

    def generate(self, request: GenerationRequest) -> "FakeStream":
        self.requests.append(request)
        if self.error:
            raise self.error
        script = self.script(request) if callable(self.script) else self.script
        self.streams.append(FakeStream(self, script))
        return self.streams[-1]

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        """One token per word; the id of a token is its index."""
        text = request.prompt if isinstance(request.prompt, str) else repr(request.prompt)
        words = list(re.finditer(r"\s*\S+", text))
        token_spans = (
            TokenSpan(i, word[0], *word.span(), name=word[0].replace(" ", "Ġ"))
            for i, word in enumerate(words)
        )
        return Tokenized(text, tuple(token_spans))

    def encode_texts(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        requests = (GenerationRequest(text, add_special_tokens=False) for text in texts)
        return [tuple(token.id for token in self.tokenize(request).token_spans) for request in requests]

    def detokenize(self, token_ids: Sequence[int], show_special: bool = True) -> str:
        return " ".join(f"w{id}" for id in token_ids)

    def tokenizer_config(self) -> dict[str, Any]:
        return {"tokenizer_class": "FakeTokenizer", "eos_token": "</s>"}

    def embed(self, inputs: Sequence[str | Sequence[int]], *, in_background: bool = False) -> "FakeStream":
        """A vector of four numbers for each input, a function of the input; one token per word, or per id."""
        if self.error:
            raise self.error
        embedded = [Embedded(index, "stop", embedding=embedding(each)) for index, each in enumerate(inputs)]
        self.embeddings_in_background.append(in_background)
        self.streams.append(FakeStream(self, [self.embed_s, *embedded]))
        return self.streams[-1]

    def adapters(self) -> FakeAdapters | None:
        return self.lora

    def seconds_until_end(self) -> float | None:
        return self.end_s

    def current_load(self) -> BackendLoad:
        return BackendLoad(running=len(self.open_streams))

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self.post = loop.call_soon_threadsafe

    def close(self) -> None:
        self._player.close()

    def play(self, stream: "FakeStream", sink: Sink) -> None:
        self._player.play(stream, sink)


def embedding(text_or_ids: str | Sequence[int]) -> Embedding:
    draws = random.Random(repr(text_or_ids))
    vector = [draws.uniform(-1, 1) for _ in range(4)]
    length = math.hypot(*vector)
    tokens = len(text_or_ids.split()) if isinstance(text_or_ids, str) else len(text_or_ids)
    return Embedding(tuple(coordinate / length for coordinate in vector), length, tokens)


class FakeStream:
    def __init__(self, backend: FakeBackend, script: Script) -> None:
        self.backend = backend
        self.script_steps = deque(script)
        self.paused_until = 0.0
        self.closed_at = 0.0

    @property
    def is_done(self) -> bool:
        return bool(self.closed_at) or not self.script_steps

    def step(self) -> Event | ServerError | None:
        """The next step, if it is due."""
        if self.is_done or time.monotonic() < self.paused_until:
            return None
        if isinstance(gate := self.script_steps[0], Gate) and not gate.is_set():
            return None
        step = self.script_steps.popleft()
        if isinstance(step, float):
            self.paused_until = time.monotonic() + step
        return None if isinstance(step, float | Gate) else step

    def next_delivery(self) -> Delivery | None:
        """The next step as an engine delivers it: the last token of an answer comes together with its end."""
        step = self.step()
        if step is None or isinstance(step, ServerError):
            return step
        is_last_token = (
            isinstance(step, Token) and self.script_steps and isinstance(self.script_steps[0], Finished)
        )
        return [step, self.script_steps.popleft()] if is_last_token else [step]

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self.is_done:
            step = self.step()
            if isinstance(step, ServerError):
                raise step
            if step:
                return step
            time.sleep(self.backend.pace_s)
        raise StopIteration

    def start(self, sink: Sink) -> None:
        self.backend.play(self, sink)

    def close(self) -> None:
        self.closed_at = self.closed_at or time.monotonic()
