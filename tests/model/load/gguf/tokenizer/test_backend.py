"""The vocabulary of a GGUF file gives the tokens that llama.cpp's tokenizer gives."""

from typing import Any

import pytest
from tokenizers import Regex, pre_tokenizers

from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.tokenizer.backend import build_backend
from inference.model.load.gguf.tokenizer.splits import SPLITS
from inference.model.load.gguf.tokenizer.vocabulary import (
    BYTE,
    CONTROL,
    NORMAL,
    PREFIX,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
)

END = "<\uff5cend\u2581of\u2581sentence\uff5c>"  # of DeepSeek: no character of it is a byte of the vocabulary
LETTERS = [*"abc123", "\u0120", "\u010a"]  # a space and a newline as byte-level vocabularies write them
BYTES = [f"<0x{value:02X}>" for value in range(256)]


def encode(tokens: list[str], text: str, **settings: Any) -> list[str]:
    """The tokens of a text."""
    vocabulary = GgufVocabulary({PREFIX + name: value for name, value in settings.items()}, tokens)
    return build_backend(vocabulary).encode(text).tokens


def byte_level(text: str, *further: str, kind: int = NORMAL, **settings: Any) -> list[str]:
    kinds = [NORMAL] * len(LETTERS) + [kind] * len(further)
    return encode([*LETTERS, *further], text, model="gpt2", token_type=kinds, **settings)


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED])
def test_a_special_token_of_any_characters_is_one_token(kind: int) -> None:
    assert byte_level(f"a{END}b", END, kind=kind) == ["a", END, "b"]


def test_a_merge_without_a_token_is_left_out() -> None:
    assert byte_level("abc", "ab", merges=["a b", "ab c", "b c"]) == ["ab", "c"]


@pytest.mark.parametrize(("pre", "expected"), [("llama-bpe", ["abc"]), ("qwen2", ["ab", "c"])])
def test_a_word_that_is_a_token_needs_merges_unless_the_vocabulary_ignores_them(
    pre: str, expected: list[str]
) -> None:
    tokens = byte_level("abc", "ab", "abc", pre=pre, merges=["a b"], add_bos_token=False)
    assert tokens == expected


@pytest.mark.parametrize(
    ("pre", "expected"), [("gpt-2", ["123"]), ("llama-bpe", ["123"]), ("smollm", ["1", "2", "3"])]
)
def test_the_name_of_the_vocabulary_says_how_digits_are_split(pre: str, expected: list[str]) -> None:
    merges = ["1 2", "12 3"]
    assert byte_level("123", "12", "123", pre=pre, merges=merges, add_bos_token=False) == expected


def test_every_expression_can_be_compiled() -> None:
    for splits in set(SPLITS.values()):
        assert all(pre_tokenizers.Split(Regex(split), "isolated") for split in splits)


def test_the_first_token_is_that_of_the_vocabulary_or_of_the_file() -> None:
    settings = {"pre": "llama-bpe", "bos_token_id": 0}
    assert byte_level("b", **settings) == ["a", "b"]
    assert byte_level("b", **settings, add_bos_token=False, add_eos_token=True, eos_token_id=2) == ["b", "c"]


def sentencepiece(text: str, **settings: Any) -> list[str]:
    tokens = ["<unk>", "<s>", "</s>", *BYTES, "\u2581", "a", "b", "ab", "\u2581a", "  "]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * 5, USER_DEFINED]
    scores = [*[0.0] * 259, -9.0, -8.0, -7.0, -2.0, -1.0, 0.0]
    return encode(tokens, text, model="llama", token_type=kinds, scores=scores, **settings)


def test_pairs_are_merged_by_score_and_unknown_characters_become_bytes() -> None:
    assert sentencepiece("ab\u00e9") == ["<s>", "\u2581a", "b", "<0xC3>", "<0xA9>"]


def test_a_space_comes_first_unless_the_file_says_otherwise() -> None:
    assert sentencepiece("ab", add_space_prefix=False) == ["<s>", "ab"]
    assert sentencepiece("b  a", add_bos_token=False) == ["\u2581", "b", "  ", "\u2581a"]


def test_a_text_of_t5_ends_with_its_last_token_and_has_blanks() -> None:
    tokens = ["<pad>", "</s>", "<unk>", "\u2581a", "[PAD4]", "[PAD5]"]
    kinds = [CONTROL, CONTROL, UNKNOWN, NORMAL, NORMAL, NORMAL]
    vocabulary = GgufVocabulary(
        {f"{PREFIX}model": "t5", f"{PREFIX}token_type": kinds, f"{PREFIX}scores": [0.0] * 6}, tokens
    )
    backend = build_backend(vocabulary)
    assert backend.encode("a").tokens == ["\u2581a", "</s>"]
    assert (backend.id_to_token(4), backend.id_to_token(5)) == ("<extra_id_99>", "<extra_id_98>")


@pytest.mark.parametrize(("name", "value"), [("model", "rwkv"), ("pre", "unheard-of")])
def test_an_unknown_vocabulary_is_refused(name: str, value: str) -> None:
    with pytest.raises(NotGguf, match=rf"{value}.*put the model's tokenizer\.json"):
        byte_level("a", **{name: value}) if name == "pre" else encode(["a"], "a", model=value)
