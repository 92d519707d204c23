"""A Backend that follows a script. Knows the interface of inference/backend.py, and nothing of models."""

import math
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from inference.backend import Sink
from inference.errors import ServerError
from inference.types import (
    Embedded,
    Embedding,
    Event,
    Finished,
    GenerationRequest,
    Load,
    ModelInfo,
    Piece,
    Started,
    Token,
    Tokenized,
)

Step = Event | ServerError | float  # a float is a pause in seconds
Script = list[Step]


def say(*texts: str, index: int = 0, pause_s: float = 0.0, reason: str = "stop") -> Script:
    """The events of one answer made of `texts`, one token each, with a pause before each."""
    tokens = [Token(index, number, text, logprob=-0.5, spelling=text) for number, text in enumerate(texts)]
    steps: Script = [Started(index, prompt_tokens=3, cached_tokens=0)]
    for token in tokens:
        steps += [pause_s, token] if pause_s else [token]
    return [*steps, Finished(index, reason, tokens=len(tokens))]


class FakeBackend:
    """Plays `script` (or what `script(request)` returns) to every request, one step every `pace_s`.

    fails     raised at submission, if set
    embeds_s  how long it takes to embed
    requests  what was asked; streams: what was handed out, each with `closed_at`
    """

    def __init__(
        self,
        script: Script | Callable[[GenerationRequest], Script] | None = None,
        fails: ServerError | None = None,
        pace_s: float = 0.001,
    ) -> None:
        self.script = say("Hello", " world") if script is None else script
        self.fails = fails
        self.pace_s = pace_s
        self.unready = ""
        self.embeds_s = 0.0
        self.requests: list[GenerationRequest] = []
        self.streams: list[FakeStream] = []
        self.post: Callable[[Callable[[], None]], None] = lambda call: call()
        self._arrived: deque[tuple[FakeStream, Sink]] = deque()
        self._stopped = threading.Event()
        self._engine: threading.Thread | None = None

    @property
    def open(self) -> list["FakeStream"]:
        return [stream for stream in self.streams if not stream.closed_at]

    def info(self) -> ModelInfo:
        return ModelInfo(id="fake/model", context=128, vocab=1000, created=1700000000)

    def ready(self) -> str:
        return self.unready

    def generate(self, request: GenerationRequest) -> "FakeStream":
        self.requests.append(request)
        if self.fails:
            raise self.fails
        script = self.script(request) if callable(self.script) else self.script
        self.streams.append(FakeStream(self, script))
        return self.streams[-1]

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        """A token a word; the id is its place."""
        text = request.prompt if isinstance(request.prompt, str) else repr(request.prompt)
        words = list(re.finditer(r"\s*\S+", text))
        pieces = (
            Piece(i, word[0], *word.span(), name=word[0].replace(" ", "Ġ")) for i, word in enumerate(words)
        )
        return Tokenized(text, tuple(pieces))

    def detokenize(self, ids: Sequence[int], special: bool = True) -> str:
        return " ".join(f"w{id}" for id in ids)

    def embed(self, inputs: Sequence[str | Sequence[int]]) -> "FakeStream":
        """Four numbers an input, drawn from what it says; a token a word, or an id."""
        if self.fails:
            raise self.fails
        found = Embedded(0, "stop", embeddings=tuple(map(embedding, inputs)))
        self.streams.append(FakeStream(self, [self.embeds_s, found]))
        return self.streams[-1]

    def load(self) -> Load:
        return Load(running=len(self.open))

    def deliver_with(self, post: Callable[[Callable[[], None]], None]) -> None:
        self.post = post

    def close(self) -> None:
        self._stopped.set()

    def play(self, stream: "FakeStream", sink: Sink) -> None:
        self._arrived.append((stream, sink))
        if self._engine is None:
            self._engine = threading.Thread(target=self._run, name="fake-engine", daemon=True)
            self._engine.start()

    def _run(self) -> None:
        playing: list[tuple[FakeStream, Sink]] = []
        while not self._stopped.wait(self.pace_s):
            while self._arrived:
                playing.append(self._arrived.popleft())
            playing = [(stream, sink) for stream, sink in playing if not stream.done]
            due = [(stream, sink, arrived) for stream, sink in playing if (arrived := stream.arrived())]
            if due:
                self.post(lambda due=due: deliver(due))


def embedding(given: str | Sequence[int]) -> Embedding:
    draws = random.Random(repr(given))
    vector = [draws.uniform(-1, 1) for _ in range(4)]
    length = math.hypot(*vector)
    tokens = len(given.split()) if isinstance(given, str) else len(given)
    return Embedding(tuple(each / length for each in vector), tokens)


def deliver(due: list[tuple["FakeStream", Sink, list[Event] | ServerError]]) -> None:
    for stream, sink, arrived in due:
        if not stream.closed_at:
            sink(arrived)


class FakeStream:
    def __init__(self, backend: FakeBackend, script: Script) -> None:
        self.backend = backend
        self.steps = deque(script)
        self.resumes_at = 0.0
        self.closed_at = 0.0

    @property
    def done(self) -> bool:
        return bool(self.closed_at) or not self.steps

    def step(self) -> Event | ServerError | None:
        """The next step, if it is due."""
        if self.done or time.monotonic() < self.resumes_at:
            return None
        step = self.steps.popleft()
        if not isinstance(step, float):
            return step
        self.resumes_at = time.monotonic() + step
        return None

    def arrived(self) -> list[Event] | ServerError | None:
        """The next step as an engine delivers it: with its last token, an answer's end."""
        step = self.step()
        if step is None or isinstance(step, ServerError):
            return step
        ends = isinstance(step, Token) and self.steps and isinstance(self.steps[0], Finished)
        return [step, self.steps.popleft()] if ends else [step]

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self.done:
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
