"""What a tokenizer's ids mean: their text, which are special, which stand for one byte.

Knows a Hugging Face tokenizer of any kind through `decode` alone. Keeps nothing of any answer.
"""

from collections.abc import Sequence
from typing import Any


class Vocabulary:
    """The ids 0 … size - 1 of `tokenizer`.

    special   ids that are markup, not text
    bytes     id → value, for tokens such as <0xE2> that SentencePiece falls back to
    anchor    ids of a word, behind which a token is spelled as it is within a text
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.names: dict[str, int] = tokenizer.get_vocab()
        self.size = max(self.names.values(), default=-1) + 1
        self.special = special_ids(tokenizer)
        self.bytes = byte_ids(tokenizer, self.names)
        self.anchor = anchor_ids(self)
        self._texts: dict[int, str] = {}

    def spell(self, ids: Sequence[int]) -> str:
        """The text of a run of ids; the spaces it was written with are kept."""
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def detokenize(self, ids: Sequence[int], special: bool) -> str:
        """The text of whole ids, with the special ones among them if `special`; unknown ids have none."""
        known = [id for id in ids if 0 <= id < self.size and (special or id not in self.special)]
        return self.spell(known)

    def text(self, id: int) -> str:
        """What one token adds inside a text: " Paris", where decoding it alone may say "Paris".

        Of a special token, its name; of half a character, U+FFFD; of an unknown id, nothing.
        """
        if id not in self._texts:
            self._texts[id] = self._text(id)
        return self._texts[id]

    def name(self, id: int) -> str:
        """What the vocabulary calls it: "ĠParis" perhaps; of an unknown id, nothing."""
        return str(self.tokenizer.convert_ids_to_tokens(id)) if 0 <= id < self.size else ""

    def _text(self, id: int) -> str:
        if not 0 <= id < self.size:
            return ""
        if id in self.special:
            return self.name(id)
        if id in self.bytes:
            return bytes((self.bytes[id],)).decode(errors="replace")
        return self.spell([*self.anchor, id])[len(self.spell(self.anchor)) :]


def special_ids(tokenizer: Any) -> frozenset[int]:
    added = (id for id, token in tokenizer.added_tokens_decoder.items() if token.special)
    return frozenset((*tokenizer.all_special_ids, *added))


def byte_ids(tokenizer: Any, names: dict[str, int]) -> dict[int, int]:
    """Empty unless such tokens are decoded to bytes: elsewhere "<0x41>" may be a word like any other."""
    ids = {names[name]: value for value in range(256) if (name := f"<0x{value:02X}>") in names}
    letter = names.get("<0x41>")
    return ids if letter is not None and tokenizer.decode([letter]) == "A" else {}


def anchor_ids(vocabulary: Vocabulary) -> list[int]:
    """A word to spell other tokens behind, of a tokenizer that has one."""
    ids = vocabulary.tokenizer.encode("a", add_special_tokens=False)
    return [id for id in ids if id not in vocabulary.special][-1:]
