"""All answers to one request as they come, and the objects of OpenAI's protocol that choices are told in.

Knows what every kind of reply has in common; a choice itself is the kind's own.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from api.openai.logprobs import mean
from api.openai.shape import Shape
from api.openai.usage import Usage
from api.said import Said
from inference.types import Event, Token

Choice = dict[str, Any]


@dataclass(slots=True)
class Reply:
    """whole, piece  what the whole reply is called, and a chunk of a streamed one."""

    shape: Shape
    whole: str
    piece: str
    said: dict[int, Said] = field(default_factory=lambda: defaultdict(Said))
    usage: Usage = field(init=False)

    def __post_init__(self) -> None:
        self.usage = Usage(self.shape.answers)

    def add(self, event: Event) -> Said:
        """What its answer has come to with it."""
        said = self.said[event.index]
        said.add(event)
        self.usage.add(event)
        return said

    def is_full(self, said: Said) -> bool:
        """It has all the tokens it may have: its end follows at once, and vLLM tells both in one chunk."""
        return len(said.tokens) == self.shape.most

    def last(self, said: Said) -> list[Token]:
        """The token that is told with its end, if one is."""
        return said.tokens[-1:] if self.is_full(said) else []

    def chunk(self, index: int, choice: Choice) -> dict[str, Any]:
        told = self.shape.heading(self.piece)
        told["choices"] = [{"index": index, **choice}]
        told["system_fingerprint"] = self.shape.fingerprint
        if self.shape.usage:
            told["usage"] = self.usage.of(index) if self.shape.continuous else None
        return told

    def ending(self) -> list[Any]:
        """The whole usage, if it is asked for, behind the end of the last answer."""
        ended = sum(said.end is not None for said in self.said.values())
        last = ended == self.shape.answers * self.shape.prompts
        return [self._body(self.piece, [])] if last and self.shape.usage else []

    def body(self, choices: list[Choice]) -> dict[str, Any]:
        return self._body(self.whole, choices)

    def best(self) -> list[Said]:
        """The answers that become choices, in their order: of each prompt, the n best."""
        return [said for number in range(self.shape.prompts) for said in self._best(number)]

    def _best(self, number: int) -> list[Said]:
        answers = self.shape.answers
        said = [self.said[number * answers + each] for each in range(answers)]
        if answers == self.shape.n:
            return said
        return sorted(said, key=lambda each: mean(each.tokens), reverse=True)[: self.shape.n]

    def _body(self, kind: str, choices: list[Choice]) -> dict[str, Any]:
        told = self.shape.heading(kind) | {"choices": choices, "usage": self.usage.whole()}
        return told | {"system_fingerprint": self.shape.fingerprint}
