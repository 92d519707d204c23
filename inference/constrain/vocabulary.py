"""Tokenizer → the bytes of each token, as llguidance wants them. Knows no constraints.

Byte-level and SentencePiece BPE tokenizers are read by llguidance itself. Others are asked what each token
adds to a text. Both are proved on a sample; a tokenizer whose tokens do not simply join is refused.
"""

import re
from collections.abc import Sequence

from llguidance import LLTokenizer, TokenizerWrapper
from llguidance.hf import from_tokenizer
from transformers import PreTrainedTokenizerBase

from inference.errors import NotImplementedHere

SAMPLE = 'All is well: "a b", [1, 22, 30]'
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def open_vocabulary(tokenizer: PreTrainedTokenizerBase, vocab: int, ends: frozenset[int]) -> LLTokenizer:
    """Takes a second or more. vocab is the width of the logits. Raises NotImplementedHere."""
    if not ends:
        raise NotImplementedHere("constraints need a model that has an end token: it has none")
    width = max(vocab, len(tokenizer))
    try:
        opened = from_tokenizer(tokenizer, n_vocab=width, eos_token=sorted(ends))
    except ValueError:  # what llguidance raises for every tokenizer it cannot read
        opened = LLTokenizer(
            TokenizerWrapper(Joined(tokenizer, width)), n_vocab=width, eos_token=sorted(ends)
        )
    if not _joins(tokenizer, opened):
        raise NotImplementedHere(
            "constraints need a tokenizer whose tokens join to the text: this one's do not"
        )
    return opened


class Joined:
    """A tokenizer seen as a list of byte strings; what llguidance's TokenizerWrapper asks for."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, width: int) -> None:
        self.eos_token_id = tokenizer.eos_token_id or 0
        self.bos_token_id = tokenizer.bos_token_id
        self.special_token_ids = sorted(set(tokenizer.all_special_ids))
        self.tokens = _pieces(tokenizer) + [b""] * (width - len(tokenizer))
        self._ids = {piece: id for id, piece in enumerate(self.tokens) if piece}
        self._longest = max(map(len, self._ids))

    def __call__(self, text: bytes) -> list[int]:
        """Longest token first: llguidance writes what is certain so; the tokenizer would add a boundary."""
        ids: list[int] = []
        while text:
            size = next((n for n in range(self._longest, 0, -1) if text[:n] in self._ids), 0)
            ids += [self._ids[text[:size]]] if size else []
            text = text[size or 1 :]
        return ids


def _pieces(tokenizer: PreTrainedTokenizerBase) -> list[bytes]:
    """What each token adds behind another; nothing where that is not text of its own."""
    before = tokenizer.encode("a", add_special_tokens=False)[-1]
    start = _decode(tokenizer, [before])
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return [_piece(str(name), start, _decode(tokenizer, [before, id])) for id, name in enumerate(names)]


def _piece(name: str, start: str, text: str) -> bytes:
    if byte := BYTE.fullmatch(name):
        return bytes([int(byte[1], 16)])
    return text[len(start) :].encode() if text.startswith(start) and "\ufffd" not in text else b""


def _joins(tokenizer: PreTrainedTokenizerBase, opened: LLTokenizer) -> bool:
    ids = tokenizer.encode(SAMPLE, add_special_tokens=False)
    return opened.decode_str(ids).strip() == _decode(tokenizer, ids).strip()


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
