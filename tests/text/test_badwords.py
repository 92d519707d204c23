from typing import Any

import pytest

from inference.errors import BadRequest
from inference.text.badwords import runs_of
from inference.text.vocabulary import Vocabulary
from tests.text.tokenizers_of_three_kinds import KINDS, tokenizer


def runs(kind: str, *words: str) -> tuple[tuple[int, ...], ...]:
    return runs_of(words, Vocabulary(tokenizer(kind)))


def has(ids: list[int], run: tuple[int, ...]) -> bool:
    return any(tuple(ids[place : place + len(run)]) == run for place in range(len(ids)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["fox", " fox", "the lazy dog", "é", "x+"])
@pytest.mark.parametrize("text", ["{}", "a {}", "\n{}", "Now\n\n{} is", "say {} x"])
def test_a_word_is_found_wherever_it_stands(kind: str, word: str, text: str) -> None:
    ids = tokenizer(kind).encode(text.format(word.strip()), add_special_tokens=False)
    assert any(has(ids, run) for run in runs(kind, word))


@pytest.mark.parametrize("kind", KINDS)
def test_other_words_are_let_be(kind: str) -> None:
    ids = tokenizer(kind).encode("The quick brown dog jumps", add_special_tokens=False)
    assert not any(has(ids, run) for run in runs(kind, "fox", "over the"))


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_capitals_are_another_word(kind: str) -> None:
    assert set(runs(kind, "The")).isdisjoint(runs(kind, "the"))


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_no_part_of_a_run(kind: str) -> None:
    vocabulary = Vocabulary(tokenizer(kind))
    assert not any(vocabulary.special.intersection(run) for run in runs(kind, "fox", "dog"))


def test_a_run_is_told_once() -> None:
    told = runs("byte-level", "fox", " fox", "fox")
    assert len(told) == len(set(told))


@pytest.mark.parametrize("words", [[""], ["a", ""], ["x" * 1001], ["a"] * 1001, ["\ud83d"]])
def test_what_cannot_be_a_word_is_refused(words: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        runs("byte-level", *words)
    assert caught.value.field == "bad_words"
