"""Incremental detokenization: the text that each token adds, in whole characters.

The emitted texts join to the text of all ids after the prompt. Knows ids and a Vocabulary; knows no stop
conditions.
"""

import codecs
from collections.abc import Sequence
from typing import Protocol

from inference.text.vocabulary import Vocabulary

UNFINISHED = "\ufffd"
CONTEXT_IDS = 6  # ids that determine the next id's text: a character has at most 4, a word boundary needs 1
WINDOW_IDS = 16  # ids decoded at once, so that the cost of a token does not grow with the text

Utf8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer(Protocol):
    """The text of one answer."""

    vocabulary: Vocabulary

    def feed(self, token_id: int) -> str:
        """The text that the token adds; empty for unknown ids, partial characters, hidden special tokens."""
        ...

    def flush(self) -> str:
        """The text that is still held back, with U+FFFD for an incomplete character."""
        ...


def make_detokenizer(
    vocabulary: Vocabulary,
    context_ids: Sequence[int] = (),
    *,
    show_special: bool = False,
    strip_leading: bool = False,
) -> Detokenizer:
    """The detokenizer of an answer.

    context_ids    ids of the prompt that the answer continues; empty if the answer starts a text
    show_special   emit the names of special tokens
    strip_leading  remove white space before the first word
    """
    kind = ByteDetokenizer if vocabulary.joins_bytes else WindowDetokenizer
    detokenizer = kind(vocabulary, context_ids, show_special=show_special)
    return StrippedDetokenizer(detokenizer) if strip_leading else detokenizer


def last_ids(vocabulary: Vocabulary, context_ids: Sequence[int]) -> list[int]:
    """The last ids of the context that have a text, as many as determine the next id's text."""
    return [
        token_id
        for token_id in context_ids[-4 * CONTEXT_IDS :]
        if 0 <= token_id < vocabulary.size and token_id not in vocabulary.special_ids
    ][-CONTEXT_IDS:]


class StrippedDetokenizer:
    """Another detokenizer's text without white space before the first word."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self.vocabulary = detokenizer.vocabulary
        self._detokenizer = detokenizer
        self._has_text = False

    def feed(self, token_id: int) -> str:
        return self._strip(self._detokenizer.feed(token_id))

    def flush(self) -> str:
        return self._strip(self._detokenizer.flush())

    def _strip(self, text: str) -> str:
        text = text if self._has_text else text.lstrip()
        self._has_text = self._has_text or bool(text)
        return text


class ByteDetokenizer:
    """For a vocabulary that joins the bytes of its tokens."""

    def __init__(
        self, vocabulary: Vocabulary, context_ids: Sequence[int] = (), *, show_special: bool = False
    ) -> None:
        self.vocabulary = vocabulary
        self._show_special = show_special
        self._bytes = Utf8(errors="replace")
        for token_id in last_ids(vocabulary, context_ids):
            self._bytes.decode(vocabulary.token_bytes(token_id))

    def feed(self, token_id: int) -> str:
        vocabulary = self.vocabulary
        if token_id in vocabulary.special_ids:
            return self.flush() + vocabulary.text(token_id) if self._show_special else ""
        return self._bytes.decode(vocabulary.token_bytes(token_id)) if 0 <= token_id < vocabulary.size else ""

    def flush(self) -> str:
        rest = self._bytes.decode(b"", final=True)
        self._bytes.reset()
        return rest


class WindowDetokenizer:
    """For any vocabulary: decodes the last ids again with each new one."""

    def __init__(
        self, vocabulary: Vocabulary, context_ids: Sequence[int] = (), *, show_special: bool = False
    ) -> None:
        self.vocabulary = vocabulary
        self._show_special = show_special
        # If there is a token for every byte, no other token ends with an incomplete character.
        self._unfinished = "" if vocabulary.byte_values else UNFINISHED
        self._bytes = Utf8(errors="replace")
        self._in_bytes = False
        self._window: list[int] = []
        self._emitted = 0
        if context_ids:
            self._continue_text(context_ids)

    def _continue_text(self, context_ids: Sequence[int]) -> None:
        """Start behind the text of these ids."""
        self._window = last_ids(self.vocabulary, context_ids)
        self._emitted = len(self._certain_text())

    def feed(self, token_id: int) -> str:
        vocabulary = self.vocabulary
        if token_id in vocabulary.special_ids:
            return self._feed_name(token_id) if self._show_special else ""
        if not 0 <= token_id < vocabulary.size:
            return ""
        if token_id in vocabulary.byte_values:
            return self._feed_byte(token_id)
        if self._in_bytes:
            return self._end_bytes() + self._feed_token(token_id)
        return self._feed_token(token_id)

    def flush(self) -> str:
        rest = self._end_bytes() if self._in_bytes else ""
        rest += self.vocabulary.decode(self._window)[self._emitted :]
        self._emitted += len(rest)
        return rest

    def _feed_name(self, token_id: int) -> str:
        """The name of a special token. Ends a partial character; the next word keeps its leading space."""
        rest = self.flush()
        self._window = list(self.vocabulary.anchor_ids)
        self._emitted = len(self._certain_text())
        return rest + self.vocabulary.text(token_id)

    def _feed_token(self, token_id: int) -> str:
        self._window.append(token_id)
        text = self.vocabulary.decode(self._window).removesuffix(self._unfinished)
        added_text = text[self._emitted :]
        self._emitted = max(self._emitted, len(text))
        if len(self._window) >= WINDOW_IDS:
            del self._window[:-CONTEXT_IDS]
            self._emitted = len(self._certain_text())
        return added_text

    def _certain_text(self) -> str:
        """The window's text without a last character that the next ids may complete."""
        return self.vocabulary.decode(self._window).removesuffix(self._unfinished)

    # The tokenizer decodes a whole run of byte tokens to U+FFFD if one byte is invalid, so the text would be
    # certain only at the end of the run. Decoding the bytes here emits each character once it is complete.

    def _feed_byte(self, token_id: int) -> str:
        self._in_bytes = True
        self._window.append(token_id)
        if len(self._window) >= WINDOW_IDS:
            del self._window[:-CONTEXT_IDS]
        return self._bytes.decode(bytes((self.vocabulary.byte_values[token_id],)))

    def _end_bytes(self) -> str:
        """The rest of a run of byte tokens, with U+FFFD for an incomplete character."""
        self._in_bytes = False
        self._emitted = len(self.vocabulary.decode(self._window))
        rest = self._bytes.decode(b"", final=True)
        self._bytes.reset()
        return rest
