"""Token ids become text one by one: nothing is lost, nothing is emitted twice, for each kind of tokenizer."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inference.text.detokenizer import ByteDetokenizer, WindowDetokenizer, make_detokenizer
from inference.text.vocabulary import Vocabulary
from tests.text.tokenizers_of_three_kinds import KINDS, TEXTS, tokenizer

kinds = pytest.mark.parametrize("kind", KINDS)


def vocabulary(kind: str) -> Vocabulary:
    return Vocabulary(tokenizer(kind))


class CountingVocabulary(Vocabulary):
    """Records how many ids it decodes each time."""

    def __init__(self, tokenizer: Any) -> None:
        self.decoded_counts: list[int] = []
        super().__init__(tokenizer)
        self.decoded_counts.clear()

    def decode(self, ids: Sequence[int]) -> str:
        self.decoded_counts.append(len(ids))
        return super().decode(ids)


def decode_each(kind: str, context: list[int], ids: list[int]) -> list[str]:
    decoder = make_detokenizer(vocabulary(kind), context)
    return [*(decoder.feed(id) for id in ids), decoder.flush()]


def decode_at_once(kind: str, context: list[int], ids: list[int]) -> str:
    """The text that `ids` add to `context`, decoded at once and without special tokens."""
    words = vocabulary(kind)
    context_ids = [id for id in context if id not in words.special_ids]
    new_ids = [id for id in ids if id not in words.special_ids and id < words.size]
    return words.decode([*context_ids, *new_ids])[len(words.decode(context_ids)) :]


@kinds
@pytest.mark.parametrize("text", TEXTS)
def test_the_joined_chunks_are_the_whole_text(kind: str, text: str) -> None:
    ids = tokenizer(kind).encode(text, add_special_tokens=False)
    assert "".join(decode_each(kind, [], ids)) == vocabulary(kind).decode(ids)


@kinds
@given(text=st.text(min_size=1), fraction=st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_an_answer_continues_its_prompt_exactly(kind: str, text: str, fraction: float) -> None:
    ids = tokenizer(kind).encode("The fox: " + text, add_special_tokens=False)
    middle = 1 + int(fraction * (len(ids) - 1))
    while middle < len(ids) and "\ufffd" in vocabulary(kind).decode(ids[:middle]):
        middle += 1
    context, rest = ids[:middle], ids[middle:]
    assert "".join(decode_each(kind, context, rest)) == decode_at_once(kind, context, rest)


@pytest.mark.parametrize("kind", ["byte-level", "wordpiece"])
@given(ids=st.lists(st.integers(0, 420), max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_ids_are_decoded_as_they_would_be_at_once(kind: str, ids: list[int]) -> None:
    context = tokenizer(kind).encode("The fox", add_special_tokens=False)
    assert "".join(decode_each(kind, context, ids)) == decode_at_once(kind, context, ids)


@given(ids=st.lists(st.integers(0, 420), max_size=60), context=st.lists(st.integers(0, 420), max_size=9))
@settings(max_examples=100, deadline=None)
def test_bytes_and_windows_give_the_same_text(ids: list[int], context: list[int]) -> None:
    words = vocabulary("byte-level")
    known = [id for id in context if id < words.size and id not in words.special_ids]
    assume(not words.decode(known).endswith("\ufffd"))
    by_bytes, by_windows = (
        kind(words, context, show_special=True) for kind in (ByteDetokenizer, WindowDetokenizer)
    )
    assert words.joins_bytes
    assert "".join([*map(by_bytes.feed, ids), by_bytes.flush()]) == "".join(
        [*map(by_windows.feed, ids), by_windows.flush()]
    )


@given(values=st.lists(st.integers(0, 255), max_size=40))
@settings(max_examples=100, deadline=None)
def test_a_run_of_byte_tokens_is_decoded_as_its_bytes(values: list[int]) -> None:
    names = tokenizer("sentencepiece").get_vocab()
    context = tokenizer("sentencepiece").encode("The fox", add_special_tokens=False)
    ids = [names[f"<0x{value:02X}>"] for value in values]
    space = names["▁"]
    decoded = "".join(decode_each("sentencepiece", context, [*ids, space, *ids]))
    text = bytes(values).decode(errors="replace")
    assert decoded == f"{text} {text}"


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_no_chunk_contains_half_a_character(kind: str) -> None:
    ids = tokenizer(kind).encode("ab 😀é", add_special_tokens=False)
    texts = decode_each(kind, [], ids)
    assert len(texts) > 7
    assert [text for text in texts if text][-2:] == ["😀", "é"]


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_an_incomplete_character_is_withheld_for_one_more_token_only(kind: str) -> None:
    half = tokenizer(kind).encode("😀", add_special_tokens=False)[-4:-1]
    letter = tokenizer(kind).convert_tokens_to_ids("a")
    decoder = make_detokenizer(vocabulary(kind), [letter])
    assert [decoder.feed(id) for id in [*half, letter]] == ["", "", "", "\ufffda"]


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_flush_returns_withheld_text_once(kind: str) -> None:
    ids = tokenizer(kind).encode("a😀", add_special_tokens=False)[:-1]
    decoder = make_detokenizer(vocabulary(kind))
    assert "".join(map(decoder.feed, ids)) == "a"
    assert [decoder.flush(), decoder.flush()] == ["\ufffd", ""]


@kinds
def test_special_and_unknown_ids_add_nothing(kind: str) -> None:
    context = tokenizer(kind).encode("The fox", add_special_tokens=False)
    odd = [*vocabulary(kind).special_ids, vocabulary(kind).size, 10**12, -1]
    assert not any(decode_each(kind, context, odd))


@kinds
def test_white_space_before_the_first_word_can_be_left_out(kind: str) -> None:
    ids = tokenizer(kind).encode("  \n the  fox ", add_special_tokens=False)
    decoder = make_detokenizer(vocabulary(kind), strip_leading=True)
    stripped = [*(decoder.feed(id) for id in ids), decoder.flush()]
    assert "".join(stripped) == "".join(decode_each(kind, [], ids)).lstrip()


@kinds
def test_a_token_costs_the_same_at_any_position(kind: str) -> None:
    ids = tokenizer(kind).encode(TEXTS[0] * 40, add_special_tokens=False)
    words = CountingVocabulary(tokenizer(kind))
    decoder = make_detokenizer(words)
    decoded = "".join(map(decoder.feed, ids))
    assert len(decoded) > 5000
    if words.joins_bytes:
        assert not words.decoded_counts
        return
    assert len(ids) <= len(words.decoded_counts) <= 2 * len(ids)
    assert max(words.decoded_counts) <= 32


@kinds
def test_a_single_token_is_decoded_as_in_a_text(kind: str) -> None:
    ids = tokenizer(kind).encode("the quick brown fox", add_special_tokens=False)
    texts = [vocabulary(kind).text(id) for id in ids]
    assert "".join(texts).strip() == "the quick brown fox"
    assert vocabulary(kind).text(10**9) == ""


@kinds
@given(ids=st.lists(st.integers(0, 420), max_size=40))
@settings(max_examples=100, deadline=None)
def test_special_tokens_are_decoded_to_names_between_the_texts(kind: str, ids: list[int]) -> None:
    words = vocabulary(kind)
    decoder = make_detokenizer(words, show_special=True)
    decoded = "".join([*(decoder.feed(id) for id in ids), decoder.flush()])
    names = [words.text(id) for id in ids if id in words.special_ids]
    assert "".join(segment for segment in split(decoded, names) if segment in names) == "".join(names)
    plain = [id for id in ids if id not in words.special_ids]
    if plain == ids:
        assert decoded == "".join(decode_each(kind, [], ids))


def split(text: str, names: list[str]) -> list[str]:
    return re.split("|".join(f"({re.escape(name)})" for name in dict.fromkeys(names)) or "$^", text)


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_half_a_character_before_a_special_token_is_decoded_before_it(kind: str) -> None:
    mark = tokenizer(kind).convert_tokens_to_ids("<|eot|>")
    half = tokenizer(kind).encode("😀", add_special_tokens=False)[:-1]
    decoder = make_detokenizer(vocabulary(kind), show_special=True)
    letters = tokenizer(kind).encode("a fox", add_special_tokens=False)
    texts = [decoder.feed(id) for id in [*half, mark, *letters]]
    assert "".join(texts).strip() == "\ufffd<|eot|> a fox".replace(
        "> a", ">a" if kind == "byte-level" else "> a"
    )


@kinds
def test_a_special_token_alone_is_its_name(kind: str) -> None:
    words = vocabulary(kind)
    assert {words.text(id) for id in words.special_ids} == {"<unk>", "<s>", "</s>", "<|eot|>"}


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_half_a_character_alone_is_the_replacement_character(kind: str) -> None:
    ids = tokenizer(kind).encode("😀", add_special_tokens=False)[-4:]
    assert [vocabulary(kind).text(id) for id in ids] == ["\ufffd"] * 4
