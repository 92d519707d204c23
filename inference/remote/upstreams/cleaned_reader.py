"""Reads answers of models with h2oGPT's prompt types, without the special tokens that these write as text.

The same as clean_response in h2oGPT's src/prompter.py.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from inference.events import Event, Finished, Token
from inference.remote.event_stream import ServerSentEvent
from inference.remote.upstreams.upstream_api import AnswerReader, UpstreamCall

REMOVED_WORDS = "<pad>", "</s>", "<|endoftext|>"
FIRST_CHARACTER = "<"  # of each of them, which has it nowhere else


class AnswerCleaner:
    """The text of one answer without REMOVED_WORDS, and without a space at its start if strips_space."""

    def __init__(self, strips_space: bool) -> None:
        self._strips_space = strips_space
        self._held_text = ""

    def feed(self, text: str, *, is_last: bool = False) -> str:
        """The text that can be passed on: nothing that may be the start of a word, unless no more follows."""
        text = self._held_text + text
        for word in REMOVED_WORDS:
            text = text.replace(word, "")
        end = len(text) if is_last else held_from(text)
        text, self._held_text = text[:end], text[end:]
        if text and self._strips_space:
            text, self._strips_space = text.removeprefix(" "), False
        return text


def held_from(text: str) -> int:
    """The place in the text where one of REMOVED_WORDS may have begun; its end if none has."""
    start = text.rfind(FIRST_CHARACTER)
    is_begun = start >= 0 and any(word.startswith(text[start:]) for word in REMOVED_WORDS)
    return start if is_begun else len(text)


class CleanedReader:
    """An AnswerReader of another one's answers with their texts cleaned."""

    def __init__(self, reader: AnswerReader, strips_space: bool) -> None:
        self._reader = reader
        self._cleaners: defaultdict[int, AnswerCleaner] = defaultdict(partial(AnswerCleaner, strips_space))

    @property
    def is_complete(self) -> bool:
        return self._reader.is_complete

    def read(self, event: ServerSentEvent) -> list[Event]:
        return self._cleaned(self._reader.read(event))

    def read_document(self, body: bytes) -> list[Event]:
        return self._cleaned(self._reader.read_document(body))

    def finish(self) -> list[Event]:
        return self._cleaned(self._reader.finish())

    def finish_at_deadline(self) -> list[Event]:
        return self._cleaned(self._reader.finish_at_deadline())

    def _cleaned(self, events: Sequence[Event]) -> list[Event]:
        return [self._cleaned_event(event) for event in events]

    def _cleaned_event(self, event: Event) -> Event:
        if not isinstance(event, Token | Finished):
            return event
        cleaner = self._cleaners[event.index]
        return replace(event, text=cleaner.feed(event.text, is_last=isinstance(event, Finished)))


def with_cleaned_answers(call: UpstreamCall, strips_space: bool) -> UpstreamCall:
    return replace(call, make_reader=lambda: CleanedReader(call.make_reader(), strips_space))
