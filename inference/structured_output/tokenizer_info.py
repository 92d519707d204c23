"""Opens a tokenizer for llguidance, which needs the bytes of each token. Knows no constraints.

llguidance reads byte-level and SentencePiece BPE tokenizers itself. For others, decoding shows what each
token adds to a text. Both ways are verified with a sample text: the bytes of its tokens must join to it.
"""

import re
from collections.abc import Sequence

from llguidance import LLTokenizer, TokenizerWrapper
from llguidance.hf import from_tokenizer
from transformers import PreTrainedTokenizerBase

from inference.errors import NotImplementedHere

SAMPLE = 'All is well: "a b", [1, 22, 30]'
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def open_llguidance_tokenizer(
    tokenizer: PreTrainedTokenizerBase, vocab: int, eos_token_ids: frozenset[int]
) -> LLTokenizer:
    """Takes a second or more. `vocab` is the width of the logits. Raises NotImplementedHere."""
    if not eos_token_ids:
        raise NotImplementedHere("constraints need a model with an end token: this one has none")
    vocab_size = max(vocab, len(tokenizer))
    try:
        llguidance_tokenizer = from_tokenizer(tokenizer, n_vocab=vocab_size, eos_token=sorted(eos_token_ids))
    except ValueError:  # raised for every tokenizer that llguidance cannot read
        llguidance_tokenizer = LLTokenizer(
            TokenizerWrapper(TokenizerAdapter(tokenizer, vocab_size)),
            n_vocab=vocab_size,
            eos_token=sorted(eos_token_ids),
        )
    sample_ids = tokenizer.encode(SAMPLE, add_special_tokens=False)
    if llguidance_tokenizer.decode_str(sample_ids).strip() != _decode(tokenizer, sample_ids).strip():
        raise NotImplementedHere(
            "constraints need a tokenizer whose tokens join to the text: this one's do not"
        )
    return llguidance_tokenizer


class TokenizerAdapter:
    """A tokenizer as a list of byte strings, the interface of llguidance's TokenizerWrapper."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> None:
        self.eos_token_id = tokenizer.eos_token_id or 0
        self.bos_token_id = tokenizer.bos_token_id
        self.special_token_ids = sorted(set(tokenizer.all_special_ids))
        self.tokens = _all_token_bytes(tokenizer) + [b""] * (vocab_size - len(tokenizer))
        self._ids = {token_bytes: id for id, token_bytes in enumerate(self.tokens) if token_bytes}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: bytes) -> list[int]:
        """Greedy longest match, for text that llguidance forces: the tokenizer would add a word boundary."""
        ids: list[int] = []
        while text:
            size = next((n for n in range(self._longest, 0, -1) if text[:n] in self._ids), 0)
            ids += [self._ids[text[:size]]] if size else []
            text = text[size or 1 :]
        return ids


def _all_token_bytes(tokenizer: PreTrainedTokenizerBase) -> list[bytes]:
    """The bytes that each token adds after another token; empty for tokens without a text of their own."""
    anchor_id = tokenizer.encode("a", add_special_tokens=False)[-1]
    anchor_text = _decode(tokenizer, [anchor_id])
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return [
        _token_bytes(str(name), anchor_text, _decode(tokenizer, [anchor_id, id]))
        for id, name in enumerate(names)
    ]


def _token_bytes(name: str, anchor_text: str, text: str) -> bytes:
    if byte := BYTE.fullmatch(name):
        return bytes([int(byte[1], 16)])
    return text[len(anchor_text) :].encode() if text.startswith(anchor_text) and "\ufffd" not in text else b""


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
