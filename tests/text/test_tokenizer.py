"""A text becomes the ids that the tokenizer gives it, each with the characters that it covers."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from inference.errors import BadRequest
from inference.text.tokenizer import PromptTokenizer, bad_words_ids
from inference.text.vocabulary import Vocabulary
from tests.text.tokenizers_of_three_kinds import KINDS, TEXTS, byte_level, tokenizer

kinds = pytest.mark.parametrize("kind", KINDS)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


class TokenizerWithoutOffsets:
    """A tokenizer that does not know which characters its tokens cover."""

    is_fast = False

    def __init__(self, words: Any) -> None:
        self._words = words

    def __getattr__(self, name: str) -> Any:
        return getattr(self._words, name)


class CountingTokenizer:
    """A tokenizer that counts its calls."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.num_calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.num_calls += 1
        return self._tokenizer(*args, **options)

    def encode(self, *args: Any, **options: Any) -> Any:
        self.num_calls += 1
        return self._tokenizer.encode(*args, **options)


def enclosing_tokenizer() -> Any:
    """A tokenizer that adds <s> and </s> around a text."""
    bpe = byte_level()
    specials = [(name, bpe.token_to_id(name)) for name in ("<s>", "</s>")]
    closed = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=specials)
    bpe.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), closed])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>")


def encoder(words: Any) -> PromptTokenizer:
    return PromptTokenizer(Vocabulary(words))


def token_texts(words: Any, text: str, special: bool | None = False) -> list[str]:
    return [text[span.start : span.stop] for span in encoder(words).token_spans(text, special)]


@kinds
@pytest.mark.parametrize("special", [None, True, False])
@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_spans_have_the_ids_that_encode_returns(kind: str, special: bool | None, text: str) -> None:
    for words in (tokenizer(kind), TokenizerWithoutOffsets(tokenizer(kind))):
        own_encoder = encoder(words)
        assert tuple(span.id for span in own_encoder.token_spans(text, special)) == own_encoder.encode(
            text, special
        )


@kinds
@pytest.mark.parametrize("special", [None, True, False])
def test_a_batch_has_the_ids_that_encode_returns(kind: str, special: bool | None) -> None:
    own_encoder, batch = encoder(tokenizer(kind)), ["fox", "", "<s>fox", "é x"]
    assert list(own_encoder.encode_batch(batch, special)) == [
        own_encoder.encode(text, special) for text in batch
    ]


@kinds
@pytest.mark.parametrize("slow", [False, True])
@given(text=texts | st.sampled_from(TEXTS))
@settings(max_examples=60, deadline=None)
def test_spans_are_in_order_within_the_text(kind: str, slow: bool, text: str) -> None:
    words = TokenizerWithoutOffsets(tokenizer(kind)) if slow else tokenizer(kind)
    spans = [(span.start, span.stop) for span in encoder(words).token_spans(text, False)]
    assert all(0 <= start <= stop <= len(text) for start, stop in spans)
    assert spans == sorted(spans)


@pytest.mark.parametrize("slow", [False, True])
@given(text=texts)
@example(text="\ufffd")
@settings(max_examples=80, deadline=None)
def test_byte_level_tokens_cover_every_character(slow: bool, text: str) -> None:
    words = TokenizerWithoutOffsets(enclosing_tokenizer()) if slow else enclosing_tokenizer()
    covered = set()
    for span in encoder(words).token_spans(text, False):
        covered.update(range(span.start, span.stop))
    assert covered == set(range(len(text)))


@kinds
@pytest.mark.parametrize("slow", [False, True])
def test_a_span_covers_exactly_its_tokens_text(kind: str, slow: bool) -> None:
    words = TokenizerWithoutOffsets(tokenizer(kind)) if slow else tokenizer(kind)
    text = "the quick brown fox"
    assert [token_text.strip() for token_text in token_texts(words, text)] == [
        words.decode([id]).strip().removeprefix("##") for id in words.encode(text, add_special_tokens=False)
    ]


@kinds
@pytest.mark.parametrize("slow", [False, True])
def test_a_span_has_its_tokens_name_in_the_vocabulary(kind: str, slow: bool) -> None:
    words = TokenizerWithoutOffsets(tokenizer(kind)) if slow else tokenizer(kind)
    spans = encoder(words).token_spans("the quick fox", False)
    assert [span.name for span in spans] == words.convert_ids_to_tokens([span.id for span in spans])


@pytest.mark.parametrize("slow", [False, True])
def test_added_special_tokens_cover_no_text_and_written_ones_cover_their_names(slow: bool) -> None:
    words = TokenizerWithoutOffsets(enclosing_tokenizer()) if slow else enclosing_tokenizer()
    spans = encoder(words).token_spans("fox</s>é", True)
    first, *_, last = spans
    assert (first.text, last.text) == ("<s>", "</s>")
    assert first.start == first.stop
    assert last.start == last.stop
    [written] = [span for span in spans[1:-1] if span.text == "</s>"]
    assert (written.start, written.stop) == (3, 7)


@pytest.mark.parametrize(
    ("special", "text", "expected"),
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
def test_special_tokens_are_added_as_requested(special: bool | None, text: str, expected: str) -> None:
    words = enclosing_tokenizer()
    assert words.decode(encoder(words).encode(text, special)) == expected


def runs(kind: str, *words: str) -> tuple[tuple[int, ...], ...]:
    return bad_words_ids(words, Vocabulary(tokenizer(kind)))


def has(ids: list[int], run: tuple[int, ...]) -> bool:
    return any(tuple(ids[place : place + len(run)]) == run for place in range(len(ids)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["fox", " fox", "the lazy dog", "é", "x+"])
@pytest.mark.parametrize("text", ["{}", "a {}", "\n{}", "Now\n\n{} is", "say {} x"])
def test_a_word_is_found_in_any_context(kind: str, word: str, text: str) -> None:
    ids = tokenizer(kind).encode(text.format(word.strip()), add_special_tokens=False)
    assert any(has(ids, run) for run in runs(kind, word))


@pytest.mark.parametrize("kind", KINDS)
def test_other_words_are_not_banned(kind: str) -> None:
    ids = tokenizer(kind).encode("The quick brown dog jumps", add_special_tokens=False)
    others = list(runs(kind, "fox", "over the"))
    assert others and not any(has(ids, run) for run in others)


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_words_are_case_sensitive(kind: str) -> None:
    assert set(runs(kind, "The")).isdisjoint(runs(kind, "the"))


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_in_no_token_sequence(kind: str) -> None:
    vocabulary = Vocabulary(tokenizer(kind))
    token_runs = list(runs(kind, "fox", "dog"))
    assert token_runs and not any(vocabulary.special_ids.intersection(run) for run in token_runs)


@pytest.mark.parametrize("kind", KINDS)
def test_many_words_are_encoded_by_a_few_calls_as_each_alone(kind: str) -> None:
    """A call takes longer than a word: those of 1,000 words took seconds."""
    words = ["fox", " fox", "  fox", " ", "\n", "\n\nfox", "the lazy dog", *(f"fox{n}" for n in range(30))]
    counting = CountingTokenizer(tokenizer(kind))
    alone = [run for word in words for run in bad_words_ids([word], Vocabulary(tokenizer(kind)))]
    vocabulary = Vocabulary(counting)
    counting.num_calls = 0
    assert bad_words_ids(words, vocabulary) == tuple(dict.fromkeys(alone))
    assert counting.num_calls <= 4


def test_a_token_sequence_is_listed_once() -> None:
    token_runs = runs("byte-level", "fox", " fox", "fox")
    assert len(token_runs) == len(set(token_runs))


def test_a_word_with_half_a_character_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        runs("byte-level", "\ud83d")
    assert caught.value.field == "bad_words"
