"""Text to ids, and which characters each id stands for.

Knows a Hugging Face tokenizer of any kind, neither requests nor limits.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from inference.errors import BadRequest
from inference.text.decode import Decoder
from inference.text.vocabulary import Vocabulary
from inference.types import Piece

Span = tuple[int, int]
JOINT = 16  # characters that a tokenizer may have left out between two tokens


class Encoder:
    """`special` says of a text whether the tokenizer's special tokens go around it: True as the tokenizer has
    it, False not at all, None only in front, as a text begins that goes on."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.tokenizer: Any = vocabulary.tokenizer
        opened = self.tokenizer.encode("a", add_special_tokens=True)
        self._head = tuple(takewhile(vocabulary.special.__contains__, opened))
        begin = self.tokenizer.bos_token_id
        self._blank = () if begin is None else (begin,)

    def encode(self, text: str, special: bool | None) -> tuple[int, ...]:
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=special is True, verbose=False))
        return (*self._missing(ids, special), *ids)

    def pieces(self, text: str, special: bool | None) -> tuple[Piece, ...]:
        """What `encode` gives, each id with its characters in `text`. Added ids stand for none."""
        if not getattr(self.tokenizer, "is_fast", False):
            return tuple(located(self.vocabulary, text, self.encode(text, special)))
        read = self.tokenizer(
            text, add_special_tokens=special is True, return_offsets_mapping=True, verbose=False
        )
        ids = tuple(read["input_ids"])
        added = self._missing(ids, special)
        spans: list[Span] = [*[(0, 0)] * len(added), *read["offset_mapping"]]
        placed = zip((*added, *ids), spans, strict=True)
        return tuple(piece(self.vocabulary, id, *span) for id, span in placed)

    def _missing(self, ids: tuple[int, ...], special: bool | None) -> tuple[int, ...]:
        """What a text begins with; one of no tokens at all, with the token that begins any."""
        if special is not None:
            return ()
        missing = () if ids[: len(self._head)] == self._head else self._head
        return missing if ids or missing else self._blank


def check_unicode(text: str, field: str) -> None:
    """Raises BadRequest for what no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ascii(text[error.start : error.end])
        raise BadRequest(field, "holds half of a surrogate pair, which is no character", half) from None


def located(vocabulary: Vocabulary, text: str, ids: Sequence[int]) -> Iterator[Piece]:
    """The ids with the characters of `text` that each adds, by decoding them one after the other.

    A character of several tokens is the last one's; what is not in the text stands for none of it.
    """
    decoder, end = Decoder(vocabulary, special=True), 0
    for count, id in enumerate(ids, 1):
        added = decoder.feed(id)
        rest = decoder.flush() if count == len(ids) else ""
        start, end = found(text, added + rest, end)
        yield piece(vocabulary, id, start, end)


def piece(vocabulary: Vocabulary, id: int, start: int, end: int) -> Piece:
    return Piece(id, vocabulary.text(id), start, end, vocabulary.name(id))


def found(text: str, part: str, place: int) -> Span:
    """Where `part` stands in the text from `place` on, or the empty span there."""
    for spelled in (part, part.strip()):
        start = text.find(spelled, place, place + len(spelled) + JOINT) if spelled else -1
        if start >= 0:
            return start, start + len(spelled)
    return place, place
