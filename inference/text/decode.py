"""Ids to text, one at a time: what each token adds, never half a character.

Joined, the pieces are the text of all the ids behind their prompt. Knows ids and a Vocabulary, not why a
text ends.
"""

import codecs
from collections.abc import Sequence

from inference.text.vocabulary import Vocabulary

UNFINISHED = "\ufffd"
KEPT = 6  # ids that decide how the next is spelled: a character has at most 4, a word's joint needs one
WINDOW = 16  # ids decoded at once, so that a token costs the same wherever it stands

Utf8 = codecs.getincrementaldecoder("utf-8")


class Decoder:
    """The text of one answer.

    context  ids of the prompt it continues, or empty where it begins a text
    special  special tokens are told by their names
    """

    def __init__(self, vocabulary: Vocabulary, context: Sequence[int] = (), *, special: bool = False) -> None:
        self.vocabulary = vocabulary
        self._special = special
        # Where bytes are tokens of their own, no other token ends in half a character.
        self._unfinished = "" if vocabulary.bytes else UNFINISHED
        self._bytes = Utf8(errors="replace")
        self._in_bytes = False
        self._window = [id for id in context[-4 * KEPT :] if self._spells(id)][-KEPT:]
        self._told = len(self._certain())

    def feed(self, id: int) -> str:
        """The text that `id` adds; empty for unknown ids, half characters, and special tokens not wanted."""
        if self._special and id in self.vocabulary.special:
            return self._feed_name(id)
        if not self._spells(id):
            return ""
        if id in self.vocabulary.bytes:
            return self._feed_byte(id)
        return self._end_bytes() + self._feed_piece(id)

    def flush(self) -> str:
        """What was held back: U+FFFD for each character that was never completed."""
        rest = self._end_bytes() + self.vocabulary.spell(self._window)[self._told :]
        self._told += len(rest)
        return rest

    def _spells(self, id: int) -> bool:
        return 0 <= id < self.vocabulary.size and id not in self.vocabulary.special

    def _feed_name(self, id: int) -> str:
        """No character goes on behind a name, and the next word has its space."""
        rest = self.flush()
        self._window = list(self.vocabulary.anchor)
        self._told = len(self._certain())
        return rest + self.vocabulary.text(id)

    def _feed_piece(self, id: int) -> str:
        self._window.append(id)
        text = self._certain()
        piece = text[self._told :]
        self._told = max(self._told, len(text))
        if len(self._window) >= WINDOW:
            self._slide()
        return piece

    def _slide(self) -> None:
        del self._window[:-KEPT]
        self._told = len(self._certain())

    def _certain(self) -> str:
        """The window's text, less a last character that the next ids may complete."""
        return self.vocabulary.spell(self._window).removesuffix(self._unfinished)

    # The library spells a whole run of byte tokens as U+FFFD where one byte of it is wrong, so its text would
    # be certain only at its end. Decoding the bytes here tells each character as soon as it is complete.

    def _feed_byte(self, id: int) -> str:
        self._in_bytes = True
        self._window.append(id)
        if len(self._window) >= WINDOW:
            del self._window[:-KEPT]
        return self._bytes.decode(bytes((self.vocabulary.bytes[id],)))

    def _end_bytes(self) -> str:
        if not self._in_bytes:
            return ""
        self._in_bytes = False
        self._told = len(self.vocabulary.spell(self._window))
        rest = self._bytes.decode(b"", final=True)
        self._bytes.reset()
        return rest
