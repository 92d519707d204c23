from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from inference.text.encode import Encoder
from inference.text.vocabulary import Vocabulary
from tests.text.tokenizers_of_three_kinds import KINDS, TEXTS, byte_level, tokenizer

kinds = pytest.mark.parametrize("kind", KINDS)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


class Slow:
    """A tokenizer that does not know which characters its tokens stand for."""

    is_fast = False

    def __init__(self, words: Any) -> None:
        self._words = words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._words, name)


def around() -> Any:
    """A tokenizer that opens a text and closes it."""
    made = byte_level()
    specials = [(name, made.token_to_id(name)) for name in ("<s>", "</s>")]
    closed = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=specials)
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), closed])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")


def encoder(words: Any) -> Encoder:
    return Encoder(Vocabulary(words))


def spelled(words: Any, text: str, special: bool | None = False) -> list[str]:
    return [text[piece.start : piece.stop] for piece in encoder(words).pieces(text, special)]


@kinds
@pytest.mark.parametrize("special", [None, True, False])
@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_the_pieces_are_the_ids_that_are_used(kind: str, special: bool | None, text: str) -> None:
    for words in (tokenizer(kind), Slow(tokenizer(kind))):
        made = encoder(words)
        assert tuple(piece.id for piece in made.pieces(text, special)) == made.encode(text, special)


@kinds
@pytest.mark.parametrize("slow", [False, True])
@given(text=texts | st.sampled_from(TEXTS))
@settings(max_examples=60, deadline=None)
def test_pieces_stand_in_order_within_the_text(kind: str, slow: bool, text: str) -> None:
    words = Slow(tokenizer(kind)) if slow else tokenizer(kind)
    spans = [(piece.start, piece.stop) for piece in encoder(words).pieces(text, False)]
    assert all(0 <= start <= stop <= len(text) for start, stop in spans)
    assert spans == sorted(spans)


@pytest.mark.parametrize("slow", [False, True])
@given(text=texts)
@example(text="\ufffd")
@settings(max_examples=80, deadline=None)
def test_byte_level_tokens_cover_every_character(slow: bool, text: str) -> None:
    words = Slow(around()) if slow else around()
    covered = set()
    for piece in encoder(words).pieces(text, False):
        covered.update(range(piece.start, piece.stop))
    assert covered == set(range(len(text)))


@kinds
@pytest.mark.parametrize("slow", [False, True])
def test_a_piece_is_its_token_to_the_letter(kind: str, slow: bool) -> None:
    words = Slow(tokenizer(kind)) if slow else tokenizer(kind)
    text = "the quick brown fox"
    assert [part.strip() for part in spelled(words, text)] == [
        words.decode([id]).strip().removeprefix("##") for id in words.encode(text, add_special_tokens=False)
    ]


@kinds
@pytest.mark.parametrize("slow", [False, True])
def test_a_piece_has_the_name_that_its_id_has_in_the_vocabulary(kind: str, slow: bool) -> None:
    words = Slow(tokenizer(kind)) if slow else tokenizer(kind)
    pieces = encoder(words).pieces("the quick fox", False)
    assert [piece.name for piece in pieces] == words.convert_ids_to_tokens([piece.id for piece in pieces])


@pytest.mark.parametrize("slow", [False, True])
def test_added_tokens_stand_for_nothing_and_written_ones_for_their_names(slow: bool) -> None:
    words = Slow(around()) if slow else around()
    pieces = encoder(words).pieces("fox</s>é", True)
    first, *_, last = pieces
    assert (first.text, last.text) == ("<s>", "</s>")
    assert first.start == first.stop
    assert last.start == last.stop
    [written] = [piece for piece in pieces[1:-1] if piece.text == "</s>"]
    assert (written.start, written.stop) == (3, 7)


@pytest.mark.parametrize(
    ("special", "text", "told"),
    [
        (None, "fox", "<s>fox"),
        (True, "fox", "<s>fox</s>"),
        (False, "fox", "fox"),
        (None, "<s>fox", "<s>fox"),
        (True, "<s>fox", "<s><s>fox</s>"),
        (None, "", "<s>"),
        (True, "", "<s></s>"),
        (False, "", ""),
    ],
)
def test_special_tokens_are_added_as_asked(special: bool | None, text: str, told: str) -> None:
    words = around()
    assert words.decode(encoder(words).encode(text, special)) == told
