"""What a selftest asks, and what it hears: prompts of many lengths, of which some begin alike.

Knows tokenizers and tasks; not how they are computed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from inference.engine.sequence import Record, Task, Tops
from inference.errors import ServerError
from inference.sampling import Sampling

TOPS = 5  # alternatives told with each token, so that a tie can be told from a fault
GREEDY = Sampling(greedy=True)
QUESTIONS = ("What is the capital of France?", "Count from one to ten.", "Tell me about ships.")
SHORT = ("Once upon a time", "1, 2, 3, 1, 2, 3, 1, 2, 3,", "The")


@dataclass
class Answer:
    """An outlet that keeps what it was given."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    tops: list[Tops] = field(default_factory=list)
    reused: int = 0
    error: ServerError | None = None

    def put(self, record: Record) -> None:
        self.ids += record.ids
        self.logprobs += record.logprobs
        self.tops += record.tops
        self.reused += record.cached or 0
        self.error = record.error or self.error


def prompts(tokenizer: Any, long: int, most: int) -> list[tuple[int, ...]]:
    """Three with a common beginning of about `long` tokens, three short ones; none of more than `most`."""
    beginning = ids(tokenizer, story(tokenizer, long))
    ends = [ids(tokenizer, question) for question in QUESTIONS]
    alike = [(beginning[: max(1, most - len(end))] + end)[:most] for end in ends]
    return [tuple(each) for each in (*alike, *(ids(tokenizer, text)[:most] for text in SHORT))]


def story(tokenizer: Any, tokens: int) -> str:
    """A text of at least so many tokens, in which nothing comes twice."""
    text = ""
    for sentence in sentences():
        text += sentence
        if len(ids(tokenizer, text)) >= tokens:
            return text
    raise AssertionError("sentences do not end")


def sentences() -> Iterator[str]:
    for day in count(1):
        yield f"On day {day} the harbour saw {day * 7 % 13 + 2} ships; {day * 5 % 11} of them left again. "


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text).input_ids)


def task(prompt: tuple[int, ...], new: int) -> Task:
    """Exactly `new` tokens, the most probable ones."""
    return Task(prompt, new, GREEDY, logprobs=TOPS)
