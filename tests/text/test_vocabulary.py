"""The bytes of tokens, and which tokenizers are decoded without transformers' own methods."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from inference.text.byte_alphabet import BYTE_VALUES, bytes_of
from inference.text.vocabulary import Vocabulary, is_plain
from tests.text.tokenizers_of_three_kinds import KINDS, tokenizer


class UpperCase(PreTrainedTokenizerFast):
    def _decode(self, *arguments: object, **options: object) -> str:
        return super()._decode(*arguments, **options).upper()


def letters(kind: type[PreTrainedTokenizerFast]) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.BPE({"a": 0, "Ġb": 1, "<|再|>": 2}, []))
    words.decoder = decoders.ByteLevel()
    return kind(tokenizer_object=words)


def test_the_alphabet_is_that_of_tokenizers() -> None:
    assert set(BYTE_VALUES) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(BYTE_VALUES.values()) == list(range(256))


@pytest.mark.parametrize(
    ("token", "expected"), [("Ġthe", b" the"), ("Ã©", "é".encode()), ("", b""), ("<|再|>", "<|再|>".encode())]
)
def test_a_token_stands_for_bytes(token: str, expected: bytes) -> None:
    assert bytes_of(token) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_those_of_transformers(kind: str) -> None:
    words, theirs = Vocabulary(tokenizer(kind)), tokenizer(kind)
    assert is_plain(theirs)
    assert words.joins_bytes == (kind == "byte-level")
    for start in range(0, words.size, 7):
        ids = range(start, min(start + 7, words.size))
        text = theirs.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert words.decode(ids) == text
        if words.joins_bytes:
            assert b"".join(map(words.token_bytes, ids)).decode(errors="replace") == text


def test_a_class_may_decode_in_its_own_way() -> None:
    assert Vocabulary(letters(PreTrainedTokenizerFast)).decode([0, 1]) == "a b"
    words = Vocabulary(letters(UpperCase))
    assert words.decode([0, 1]) == "A B"
    assert not words.joins_bytes


def test_an_added_token_stands_for_itself() -> None:
    words = Vocabulary(letters(PreTrainedTokenizerFast))
    assert words.token_bytes(2) == words.decode([2]).encode() == "<|再|>".encode()
    assert words.token_bytes(99) == b""


@pytest.mark.parametrize(
    ("ids", "added", "size"),
    [
        ({"a": 0, "Ġb": 1}, [], 2),
        ({"a": 0, "Ġb": 5}, [], 6),
        ({"a": 0, "Ġb": 1}, ["a", "<|end|>"], 3),
        ({"a": 0, "Ġb": 7}, ["<|end|>"], 8),
    ],
)
def test_the_size_is_the_largest_id_and_one(ids: dict[str, int], added: list[str], size: int) -> None:
    """Ids may be left out, and a token of the vocabulary may be added again."""
    words = Tokenizer(models.BPE(ids, []))
    words.add_special_tokens(added)
    fast = PreTrainedTokenizerFast(tokenizer_object=words)
    assert Vocabulary(fast).size == max(fast.get_vocab().values()) + 1 == size
