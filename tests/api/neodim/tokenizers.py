"""The tokenizers that the vectors were recorded with, and a backend that plays their scripted tokens."""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest

from inference.backend_info import ModelInfo
from inference.events import Event, Finished, Started, Token
from inference.tokenized import Tokenized, TokenSpan
from inference.types import GenerationRequest
from tests.fakes.fake_backend import FakeBackend

SPLITS: dict[str, Callable[[str], list[bytes]]] = {
    "words": lambda text: encode_all(re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9\s]+|\s", text)),
    "chars": lambda text: encode_all(text),
    "chunk3": lambda text: encode_all(text[i : i + 3] for i in range(0, len(text), 3)),
    "utf8": lambda text: [bytes([byte]) for byte in text.encode()],
}


def encode_all(texts: Sequence[str] | Iterator[str]) -> list[bytes]:
    return [text.encode() for text in texts]


class ScriptedBackend(FakeBackend):
    """Tokenizes like the tokenizer `kind`; its answers play `scripts`, one each, up to max_tokens.

    turns   indices of the answers in the order their tokens come; round robin by default
    marks   texts that are special tokens
    begins  text put before every prompt
    """

    def __init__(
        self,
        kind: str,
        *scripts: Sequence[str | bytes],
        turns: Sequence[int] = (),
        context: int = 4096,
        marks: Sequence[str] = (),
        begins: str = "",
    ) -> None:
        super().__init__(self._script_for)
        self.kind = kind
        self.scripts = [[token.encode() if isinstance(token, str) else token for token in s] for s in scripts]
        self.turns = turns
        self.context = context
        self.marks = marks
        self.begins = begins
        self.vocabulary: list[bytes] = []

    def info(self) -> ModelInfo:
        return ModelInfo("scripted", self.context, 100_000, 0)

    def id(self, token: bytes) -> int:
        if token not in self.vocabulary:
            self.vocabulary.append(token)
        return self.vocabulary.index(token)

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        assert isinstance(request.prompt, str)
        text = request.prompt if request.add_special_tokens is False else self.begins + request.prompt
        segments = (
            re.split("|".join(f"({re.escape(mark)})" for mark in self.marks), text) if self.marks else [text]
        )
        split = (
            [segment.encode()] if segment in self.marks else SPLITS[self.kind](segment)
            for segment in segments
            if segment
        )
        token_spans = [
            TokenSpan(self.id(p), p.decode(errors="replace"), 0, 0) for p in chain.from_iterable(split)
        ]
        return Tokenized(text, tuple(token_spans))

    def detokenize(self, token_ids: Sequence[int], show_special: bool = True) -> str:
        tokens = (self.vocabulary[id] for id in token_ids)
        marks = [mark.encode() for mark in self.marks]
        return b"".join(p for p in tokens if show_special or p not in marks).decode(errors="replace")

    def _script_for(self, request: GenerationRequest) -> list[Event | float]:
        lanes = [list(self._answer_events(i, request)) for i in range(request.n)]
        rounds = [lane for turn in zip_longest(*lanes) for lane in turn if lane]
        if not self.turns:
            return rounds
        started = [event for lane in lanes for event in lane[:1]]
        rest = [iter(lane[1:]) for lane in lanes]
        ordered = [event for index in self.turns if (event := next(rest[index], None))]
        return [*started, *ordered, *chain.from_iterable(rest)]

    def _answer_events(self, index: int, request: GenerationRequest) -> Iterator[Event]:
        script = self.scripts[index % len(self.scripts)][: request.max_tokens]
        yield Started(index, len(request.prompt), 0)
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        for token in script:
            yield Token(index, self.id(token), decode(token))
        yield Finished(index, "length", decode(b"", True), num_tokens=len(script), seed=7)
