import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.decode import Decoder
from inference.text.vocabulary import Vocabulary
from tests.text.tokenizers_of_three_kinds import KINDS, TEXTS, tokenizer

kinds = pytest.mark.parametrize("kind", KINDS)


def vocabulary(kind: str) -> Vocabulary:
    return Vocabulary(tokenizer(kind))


def pieces(kind: str, context: list[int], ids: list[int]) -> list[str]:
    decoder = Decoder(vocabulary(kind), context)
    return [*(decoder.feed(id) for id in ids), decoder.flush()]


def whole(kind: str, context: list[int], ids: list[int]) -> str:
    """What ids add to context, decoded at once, special tokens left out."""
    words = vocabulary(kind)
    seen = [id for id in context if id not in words.special]
    told = [id for id in ids if id not in words.special and id < words.size]
    return words.spell([*seen, *told])[len(words.spell(seen)) :]


@kinds
@pytest.mark.parametrize("text", TEXTS)
def test_the_pieces_joined_are_the_whole_text(kind: str, text: str) -> None:
    ids = tokenizer(kind).encode(text, add_special_tokens=False)
    assert "".join(pieces(kind, [], ids)) == vocabulary(kind).spell(ids)


@kinds
@given(text=st.text(min_size=1), cut=st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_an_answer_continues_its_prompt_exactly(kind: str, text: str, cut: float) -> None:
    ids = tokenizer(kind).encode("The fox: " + text, add_special_tokens=False)
    middle = 1 + int(cut * (len(ids) - 1))
    while middle < len(ids) and "\ufffd" in vocabulary(kind).spell(ids[:middle]):
        middle += 1
    context, rest = ids[:middle], ids[middle:]
    assert "".join(pieces(kind, context, rest)) == whole(kind, context, rest)


@pytest.mark.parametrize("kind", ["byte-level", "wordpiece"])
@given(ids=st.lists(st.integers(0, 420), max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_ids_at_all_read_as_they_would_at_once(kind: str, ids: list[int]) -> None:
    context = tokenizer(kind).encode("The fox", add_special_tokens=False)
    assert "".join(pieces(kind, context, ids)) == whole(kind, context, ids)


@given(values=st.lists(st.integers(0, 255), max_size=40))
@settings(max_examples=100, deadline=None)
def test_a_run_of_byte_tokens_reads_as_its_bytes(values: list[int]) -> None:
    names = tokenizer("sentencepiece").get_vocab()
    context = tokenizer("sentencepiece").encode("The fox", add_special_tokens=False)
    ids = [names[f"<0x{value:02X}>"] for value in values]
    dog = names["▁"]
    told = "".join(pieces("sentencepiece", context, [*ids, dog, *ids]))
    text = bytes(values).decode(errors="replace")
    assert told == f"{text} {text}"


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_no_piece_holds_half_a_character(kind: str) -> None:
    ids = tokenizer(kind).encode("ab 😀é", add_special_tokens=False)
    told = pieces(kind, [], ids)
    assert len(told) > 7
    assert [piece for piece in told if piece][-2:] == ["😀", "é"]


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_a_character_never_completed_is_held_for_one_token_only(kind: str) -> None:
    half = tokenizer(kind).encode("😀", add_special_tokens=False)[-4:-1]
    letter = tokenizer(kind).convert_tokens_to_ids("a")
    decoder = Decoder(vocabulary(kind), [letter])
    assert [decoder.feed(id) for id in [*half, letter]] == ["", "", "", "\ufffda"]


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_flush_tells_what_was_held_and_only_once(kind: str) -> None:
    ids = tokenizer(kind).encode("a😀", add_special_tokens=False)[:-1]
    decoder = Decoder(vocabulary(kind))
    assert "".join(map(decoder.feed, ids)) == "a"
    assert [decoder.flush(), decoder.flush()] == ["\ufffd", ""]


@kinds
def test_special_and_unknown_ids_add_nothing(kind: str) -> None:
    context = tokenizer(kind).encode("The fox", add_special_tokens=False)
    odd = [*vocabulary(kind).special, vocabulary(kind).size, 10**12, -1]
    assert not any(pieces(kind, context, odd))


@kinds
def test_a_token_costs_the_same_wherever_it_stands(kind: str) -> None:
    ids = tokenizer(kind).encode(TEXTS[0] * 40, add_special_tokens=False)
    decoder = Decoder(vocabulary(kind))
    began = time.perf_counter()
    told = "".join(map(decoder.feed, ids))
    assert len(told) > 5000
    assert (time.perf_counter() - began) / len(ids) < 300e-6


@kinds
def test_a_token_alone_reads_as_it_would_in_a_text(kind: str) -> None:
    ids = tokenizer(kind).encode("the quick brown fox", add_special_tokens=False)
    texts = [vocabulary(kind).text(id) for id in ids]
    assert "".join(texts).strip() == "the quick brown fox"
    assert vocabulary(kind).text(10**9) == ""


@kinds
@given(ids=st.lists(st.integers(0, 420), max_size=40))
@settings(max_examples=100, deadline=None)
def test_special_tokens_are_told_by_name_between_the_texts_around_them(kind: str, ids: list[int]) -> None:
    words = vocabulary(kind)
    decoder = Decoder(words, special=True)
    told = "".join([*(decoder.feed(id) for id in ids), decoder.flush()])
    names = [words.text(id) for id in ids if id in words.special]
    assert "".join(part for part in split(told, names) if part in names) == "".join(names)
    plain = [id for id in ids if id not in words.special]
    if plain == ids:
        assert told == "".join(pieces(kind, [], ids))


def split(text: str, names: list[str]) -> list[str]:
    return re.split("|".join(f"({re.escape(name)})" for name in dict.fromkeys(names)) or "$^", text)


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_half_a_character_in_front_of_a_name_is_told_before_it(kind: str) -> None:
    mark = tokenizer(kind).convert_tokens_to_ids("<|eot|>")
    half = tokenizer(kind).encode("😀", add_special_tokens=False)[:-1]
    decoder = Decoder(vocabulary(kind), special=True)
    letters = tokenizer(kind).encode("a fox", add_special_tokens=False)
    told = [decoder.feed(id) for id in [*half, mark, *letters]]
    assert "".join(told).strip() == "\ufffd<|eot|> a fox".replace(
        "> a", ">a" if kind == "byte-level" else "> a"
    )


@kinds
def test_a_special_token_alone_is_its_name(kind: str) -> None:
    words = vocabulary(kind)
    assert {words.text(id) for id in words.special} == {"<unk>", "<s>", "</s>", "<|eot|>"}


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_half_a_character_alone_is_the_sign_for_it(kind: str) -> None:
    ids = tokenizer(kind).encode("😀", add_special_tokens=False)[-4:]
    assert [vocabulary(kind).text(id) for id in ids] == ["\ufffd"] * 4
