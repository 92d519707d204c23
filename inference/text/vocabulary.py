"""The token ids of a tokenizer: their texts, the special tokens, and the byte tokens.

Works for every Hugging Face tokenizer. Keeps no state of an answer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tokenizers.decoders import ByteLevel
from transformers import PreTrainedTokenizerFast

from inference.text.byte_alphabet import bytes_of

Decode = Callable[[Sequence[int]], str]


class Vocabulary:
    """The ids 0 … size - 1 of `tokenizer`.

    special_ids  ids that are markup, not text
    byte_values  id → value, of byte fallback tokens such as SentencePiece's <0xE2>
    anchor_ids   ids of a word: decoded after them, a token has the text that it has inside a sentence;
                 empty if the tokenizer gives none
    joins_bytes  whether the text of ids is that of their tokens' bytes, one after the other
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._decode: Decode = find_decode(tokenizer)
        self.joins_bytes = is_plain(tokenizer) and isinstance(tokenizer.backend_tokenizer.decoder, ByteLevel)
        self.size = vocabulary_size(tokenizer)
        added = (token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special)
        self.special_ids = frozenset((*tokenizer.all_special_ids, *added))
        self.byte_values = find_byte_ids(tokenizer)
        word_ids = tokenizer.encode("a", add_special_tokens=False)
        self.anchor_ids = [token_id for token_id in word_ids if token_id not in self.special_ids][-1:]
        self._texts: dict[int, str] = {}
        self._bytes: dict[int, bytes] = {}

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, with all spaces."""
        return self._decode(ids)

    def detokenize(self, ids: Sequence[int], show_special: bool) -> str:
        """The text of a complete list of ids, with or without special tokens; unknown ids have no text."""
        known_ids = [
            token_id
            for token_id in ids
            if 0 <= token_id < self.size and (show_special or token_id not in self.special_ids)
        ]
        return self.decode(known_ids)

    def text(self, token_id: int) -> str:
        """The text that a token adds inside a sentence: " Paris", even if `decode` alone returns "Paris".

        The name of a special token; U+FFFD for an incomplete character; empty for an unknown id.
        """
        if token_id not in self._texts:
            self._texts[token_id] = self._text(token_id)
        return self._texts[token_id]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token, where joins_bytes; empty for an id without a token."""
        if token_id not in self._bytes:
            self._bytes[token_id] = bytes_of(self.tokenizer.backend_tokenizer.id_to_token(token_id) or "")
        return self._bytes[token_id]

    def name(self, token_id: int) -> str:
        """The token's entry in the vocabulary, for example "ĠParis"; empty for an unknown id."""
        return str(self.tokenizer.convert_ids_to_tokens(token_id)) if 0 <= token_id < self.size else ""

    def _text(self, token_id: int) -> str:
        if not 0 <= token_id < self.size:
            return ""
        if token_id in self.special_ids:
            return self.name(token_id)
        if token_id in self.byte_values:
            return bytes((self.byte_values[token_id],)).decode(errors="replace")
        return self.decode([*self.anchor_ids, token_id])[len(self.decode(self.anchor_ids)) :]


def is_plain(tokenizer: Any) -> bool:
    """Whether the tokenizer decodes by the tokenizers package alone: its class changes nothing of it."""
    kind, plain = type(tokenizer), PreTrainedTokenizerFast
    return issubclass(kind, plain) and kind._decode is plain._decode and kind.decode is plain.decode


def find_decode(tokenizer: Any) -> Decode:
    """The shortest way to decode: transformers' own takes as long as the decoding of some ids."""
    if is_plain(tokenizer):
        return partial(tokenizer.backend_tokenizer.decode, skip_special_tokens=False)
    return partial(tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def vocabulary_size(tokenizer: Any) -> int:
    """The largest id + 1.

    Where each id below the number of names has a name, the names have no other ids. To look that up takes
    less time, and less memory, than a dict of all names.
    """
    if is_plain(tokenizer):
        num_names = tokenizer.backend_tokenizer.get_vocab_size(with_added_tokens=True)
        if None not in map(tokenizer.backend_tokenizer.id_to_token, range(num_names)):
            return int(num_names)
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def find_byte_ids(tokenizer: Any) -> dict[int, int]:
    """Byte values by id; empty if `decode` does not turn "<0x41>" into a byte: it may be ordinary text."""
    find_id = tokenizer.backend_tokenizer.token_to_id if is_plain(tokenizer) else tokenizer.get_vocab().get
    ids = {token_id: value for value in range(256) if (token_id := find_id(f"<0x{value:02X}>")) is not None}
    letter_a = find_id("<0x41>")
    return ids if letter_a is not None and tokenizer.decode([letter_a]) == "A" else {}
