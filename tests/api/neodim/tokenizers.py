"""The tokenizers that the vectors were recorded with, and a backend that plays scripted tokens of theirs."""

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest

from inference.types import Event, Finished, GenerationRequest, ModelInfo, Piece, Started, Token, Tokenized
from tests.fake_backend import FakeBackend

SPLITS: dict[str, Callable[[str], list[bytes]]] = {
    "words": lambda text: encoded(re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^A-Za-z0-9\s]+|\s", text)),
    "chars": lambda text: encoded(text),
    "chunk3": lambda text: encoded(text[i : i + 3] for i in range(0, len(text), 3)),
    "utf8": lambda text: [bytes([byte]) for byte in text.encode()],
}


def encoded(parts: Sequence[str] | Iterator[str]) -> list[bytes]:
    return [part.encode() for part in parts]


class ScriptedBackend(FakeBackend):
    """Reads as the tokenizer `kind` does, and writes `scripts`, one for each answer, as far as is asked for.

    turns  the answers' indices in the order their tokens come; by default they take turns
    marks  texts that are special tokens
    begins written before every text that a model is to read
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
        super().__init__(self._played)
        self.kind = kind
        self.scripts = [[piece.encode() if isinstance(piece, str) else piece for piece in s] for s in scripts]
        self.turns = turns
        self.context = context
        self.marks = marks
        self.begins = begins
        self.vocabulary: list[bytes] = []

    def info(self) -> ModelInfo:
        return ModelInfo("scripted", self.context, 100_000, 0)

    def id(self, piece: bytes) -> int:
        if piece not in self.vocabulary:
            self.vocabulary.append(piece)
        return self.vocabulary.index(piece)

    def tokenize(self, request: GenerationRequest) -> Tokenized:
        assert isinstance(request.prompt, str)
        text = request.prompt if request.special is False else self.begins + request.prompt
        parts = (
            re.split("|".join(f"({re.escape(mark)})" for mark in self.marks), text) if self.marks else [text]
        )
        split = ([part.encode()] if part in self.marks else SPLITS[self.kind](part) for part in parts if part)
        pieces = [Piece(self.id(p), p.decode(errors="replace"), 0, 0) for p in chain.from_iterable(split)]
        return Tokenized(text, tuple(pieces))

    def detokenize(self, ids: Sequence[int], special: bool = True) -> str:
        pieces = (self.vocabulary[id] for id in ids)
        marks = [mark.encode() for mark in self.marks]
        return b"".join(p for p in pieces if special or p not in marks).decode(errors="replace")

    def _played(self, request: GenerationRequest) -> list[Event | float]:
        lanes = [list(self._answer(i, request)) for i in range(request.n)]
        rounds = [lane for turn in zip_longest(*lanes) for lane in turn if lane]
        if not self.turns:
            return rounds
        started = [event for lane in lanes for event in lane[:1]]
        rest = [iter(lane[1:]) for lane in lanes]
        taken = [event for index in self.turns if (event := next(rest[index], None))]
        return [*started, *taken, *chain.from_iterable(rest)]

    def _answer(self, index: int, request: GenerationRequest) -> Iterator[Event]:
        script = self.scripts[index % len(self.scripts)][: request.max_tokens]
        yield Started(index, len(request.prompt), 0)
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        for piece in script:
            yield Token(index, self.id(piece), decode(piece))
        yield Finished(index, "length", decode(b"", True), tokens=len(script), seed=7)
