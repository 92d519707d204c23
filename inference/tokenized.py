"""A prompt as the model gets it: its text and its tokens. Plain values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token, and its characters [start, stop) in a text.

    text  the text that the token adds
    name  the token's entry in the vocabulary, for example "ĠParis"
    """

    id: int
    text: str
    start: int
    stop: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A request's prompt as the model gets it: the text, rendered by the chat template, and its tokens."""

    text: str
    token_spans: tuple[TokenSpan, ...]
