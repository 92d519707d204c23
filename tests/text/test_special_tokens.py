"""Spellings of special tokens in a user's text are split, so that only the template's own become tokens."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.special_tokens import MarkedText, SpecialTokenMarker
from inference.text.tokenizer import PromptTokenizer
from inference.text.vocabulary import Vocabulary
from tests.text.tokenizers_of_three_kinds import KINDS, tokenizer

NAMES = ("<s>", "</s>", "<|eot|>", "<|eot|>x", "[INST]", "\n")
kinds = pytest.mark.parametrize("kind", KINDS)
fragments = st.sampled_from([*NAMES, "<", "|", "eot", "|>", "s>", " ", "a", "é", "\U0002a6d6"])
texts = st.lists(fragments, max_size=12).map("".join)


def render(values: Any) -> str:
    return "".join(f"<s>{message['content']}</s>" for message in values)


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("", []),
        ("a < b |eot|> [INST", []),
        ("<s>", [1]),
        ("a<|eot|>b</s>", [2, 10]),
        ("<|eot|>x<s>", [1, 9]),  # the longest token
        ("\n\n", []),  # of one character
    ],
)
def test_each_spelling_is_split_behind_its_first_character(text: str, positions: list[int]) -> None:
    assert SpecialTokenMarker(NAMES).split(text) == MarkedText(text, tuple(positions))


def test_without_special_tokens_nothing_is_split() -> None:
    assert SpecialTokenMarker([]).split("<s>") == MarkedText("<s>")
    assert SpecialTokenMarker([]).render([{"content": "<s>"}], render) == MarkedText("<s><s></s>")


@given(contents=st.lists(texts, min_size=1, max_size=4))
@settings(deadline=None)
def test_the_rendered_text_is_the_same_and_only_the_templates_own_tokens_stay_whole(
    contents: list[str],
) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    marked = SpecialTokenMarker(NAMES).render(messages, render)
    assert marked.text == render(messages)
    segments = [
        marked.text[start:end]
        for start, end in zip((0, *marked.split_at), (*marked.split_at, None), strict=True)
    ]
    special_tokens = [
        name for segment in segments for name in re.findall(r"<s>|</s>|<\|eot\|>|\[INST\]", segment)
    ]
    assert special_tokens == ["<s>", "</s>"] * len(contents)


@pytest.mark.parametrize(
    "values",
    [
        [{"role": "user", "content": [{"type": "text", "text": "a <|eo"}, {"type": "text", "text": "t|>"}]}],
        [{"role": "user", "content": "a <|eo"}, {"role": "user", "content": "t|> b"}],
    ],
)
def test_a_spelling_in_two_texts_is_split(values: Any) -> None:
    def concatenated(values: Any) -> str:
        contents = [message["content"] for message in values]
        return "".join(
            each if isinstance(each, str) else "".join(item["text"] for item in each) for each in contents
        )

    assert SpecialTokenMarker(NAMES).render(values, concatenated).split_at == (3,)


@pytest.mark.parametrize("dump", [lambda value: json.dumps(value, ensure_ascii=False), str])
def test_names_are_split_too(dump: Any) -> None:
    tools = [
        {
            "type": "<s>",
            "function": {"name": "f", "parameters": {"properties": {"<|eot|>": [1, None, "</s>"]}}},
        }
    ]
    marked = SpecialTokenMarker(NAMES).render(tools, dump)
    assert marked.text == dump(tools)
    assert [marked.text[position - 1 : position + 2] for position in marked.split_at] == ["<s>", "<|e", "</s"]


def test_a_text_of_the_first_marks_keeps_its_characters() -> None:
    text = "".join(map(chr, range(0x2A6D6, 0x2A600, -1))) + "<s>"
    marked = SpecialTokenMarker(NAMES).render([{"content": text}], render)
    assert marked.text == f"<s>{text}</s>" and marked.split_at == (len(text) + 1,)


@kinds
@pytest.mark.parametrize("special", [None, True, False])
@given(text=texts)
@settings(max_examples=40, deadline=None)
def test_a_split_text_holds_no_special_token_and_reads_the_same(
    kind: str, special: bool | None, text: str
) -> None:
    vocabulary = Vocabulary(tokenizer(kind))
    encoder = PromptTokenizer(vocabulary)
    names = [vocabulary.name(token_id) for token_id in vocabulary.special_ids]
    marked = SpecialTokenMarker(names).split(text)
    ids = encoder.encode(text, special, marked.split_at)
    no_ids = encoder.encode("", special)
    added_ids = {vocabulary.tokenizer.unk_token_id, *(no_ids if ids == no_ids else ())}
    assert not vocabulary.special_ids.difference(added_ids).intersection(ids)
    if kind != "wordpiece":  # which keeps neither case nor spaces
        assert vocabulary.detokenize(ids, show_special=False).lstrip(" ") == text.lstrip(" ")


@pytest.mark.parametrize(("num_chars", "expected"), [(9, (1, 5)), (8, (4,)), (4, ()), (99, (1, 5))])
def test_the_last_characters_keep_their_marks(num_chars: int, expected: tuple[int, ...]) -> None:
    marked = MarkedText("<s>-<s>--", (1, 5)).last(num_chars)
    assert marked == MarkedText("<s>-<s>--"[-num_chars:], expected)


@kinds
def test_the_spans_of_a_split_text_are_those_of_its_characters(kind: str) -> None:
    encoder = PromptTokenizer(Vocabulary(tokenizer(kind)))
    text, split_at = "ab <|eot|> fox", (4,)
    spans = encoder.token_spans(text, False, split_at)
    assert tuple(span.id for span in spans) == encoder.encode(text, False, split_at)
    assert not any(span.start < split_at[0] < span.stop for span in spans)
