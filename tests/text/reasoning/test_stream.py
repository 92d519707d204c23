"""The reasoning of every family of models, for any chunking of an answer; and what is no reasoning."""

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.reasoning.formats import ReasoningFormat, detect_format
from inference.text.reasoning.stream import ReasoningDelta, ReasoningParser, SpecialToken, TextOrReasoning
from tests.text.reasoning.family_reasoning import FAMILIES, REPLY, THINK_TEMPLATE, THOUGHT, Family

Outputs = list[TextOrReasoning]

CALL_OPENINGS = ("<tool_call>\n<function=", "<|call|>")


def format_of(template: str) -> ReasoningFormat:
    reasoning_format = detect_format(template)
    assert reasoning_format is not None
    return reasoning_format


THINK = format_of(THINK_TEMPLATE)
HARMONY = format_of(FAMILIES["gpt-oss"].template)


def parser_of(family: Family) -> ReasoningParser:
    reasoning_format = format_of(family.template)
    return ReasoningParser(reasoning_format, reasoning_format.section_open_at_end(family.prompt_end))


def feed(parser: ReasoningParser, chunks: Iterable[str], special: Iterable[str] = ()) -> Outputs:
    """The outputs for an answer in these chunks, of which those in `special` are special tokens."""
    special = set(special)
    outputs = [
        output
        for chunk in chunks
        for output in (parser.feed_special(chunk) if chunk in special else parser.feed(chunk))
    ]
    return outputs + parser.flush()


def join(outputs: Iterable[TextOrReasoning]) -> tuple[str, str]:
    """(reasoning, text), with special tokens in the text by their names"""
    reasoning, text = "", ""
    for output in outputs:
        match output:
            case ReasoningDelta():
                reasoning += output.text
            case SpecialToken():
                text += output.name
            case str():
                text += output
    return reasoning, text


def parse(text: str, opens: bool = False, call_openings: Iterable[str] = ()) -> tuple[str, str]:
    """(reasoning, text) of an answer with <think>, at once and by characters. opens: the prompt did"""
    section = THINK.sections[0] if opens else None
    at_once = join(feed(ReasoningParser(THINK, section, call_openings), [text]))
    assert join(feed(ReasoningParser(THINK, section, call_openings), text)) == at_once
    return at_once


def tokens(text: str, special: tuple[str, ...], cuts: Iterable[int] = ()) -> list[str]:
    """The text in its special tokens, and what is between them, cut at these places."""
    split_text = re.split(f"({'|'.join(map(re.escape, special))})", text) if special else [text]
    chunks: list[str] = []
    for chunk in split_text:
        edges = [0, *sorted({place for place in cuts if place < len(chunk)}), len(chunk)]
        chunks += [chunk] if chunk in special else [chunk[a:b] for a, b in pairwise(edges)]
    return [chunk for chunk in chunks if chunk]


@pytest.mark.parametrize("name", FAMILIES)
@given(cuts=st.sets(st.integers(1, 200)))
@settings(max_examples=30, deadline=None)
def test_the_reasoning_of_every_family_is_separated(name: str, cuts: set[int]) -> None:
    family = FAMILIES[name]
    for chunks in (
        tokens(family.full_text, family.special),
        tokens(family.full_text, family.special, range(200)),
        tokens(family.full_text, family.special, cuts),
    ):
        assert join(feed(parser_of(family), chunks, family.special)) == (THOUGHT, REPLY)


@pytest.mark.parametrize("name", FAMILIES)
def test_text_is_emitted_as_soon_as_it_is_no_marker(name: str) -> None:
    family = FAMILIES[name]
    parser = parser_of(family)
    start, _, _ = family.full_text.partition(THOUGHT)
    for chunk in tokens(start, family.special):
        parser.feed_special(chunk) if chunk in family.special else parser.feed(chunk)
    assert join(parser.feed("Two ")) == ("Two", "")
    assert join(parser.feed("and")) == (" and", "")


def test_an_answer_may_have_no_reasoning() -> None:
    assert parse(" \n Hello, world. \n") == ("", " \n Hello, world. \n")
    assert parse("") == ("", "")
    assert parse(" \n") == ("", " \n")


@pytest.mark.parametrize("text", ["<think>\n\n</think>\n\nHello", "</think>\n\nHello", "\n</think>Hello"])
def test_empty_reasoning_leaves_the_text_alone(text: str) -> None:
    assert parse(text) == ("", "Hello")


def test_a_prompt_that_has_closed_the_reasoning_opens_none() -> None:
    assert THINK.section_open_at_end("<|im_start|>assistant\n<think>\n\n</think>\n\n") is None
    assert THINK.section_open_at_end("what does <think> mean?<|im_end|>\n<|im_start|>assistant\n") is None


def test_a_marker_within_the_text_is_a_quotation() -> None:
    quotation = "Models write <think>so</think>, and then </think>."
    assert parse(quotation) == ("", quotation)
    assert parse(f"<think>hm</think>{quotation}") == ("hm", quotation)


def test_a_marker_that_breaks_off_is_text() -> None:
    assert parse("\n<thi") == ("", "\n<thi")
    assert parse("<thing> is") == ("", "<thing> is")
    assert parse("<think>a </thin</think>b") == ("a </thin", "b")


def test_reasoning_that_the_limit_ends_is_all_reasoning() -> None:
    assert parse("<think>\nso far \n") == ("so far", "")
    assert parse("so far </thi", opens=True) == ("so far </thi", "")


def test_a_call_ends_reasoning_that_the_model_has_not_closed() -> None:
    call = "<tool_call>\n<function=f></function></tool_call>"
    assert parse(f"hm\n{call}", True, CALL_OPENINGS) == ("hm", call)
    assert parse(f"I write <tool_call>\nhere. {call}", True, CALL_OPENINGS) == (
        "I write <tool_call>\nhere.",
        call,
    )
    parser = ReasoningParser(THINK, THINK.sections[0], CALL_OPENINGS)
    outputs = feed(parser, ["hm ", "<|call|>", "{}"], ["<|call|>"])
    assert (join(outputs), outputs[-2:]) == (("hm", "<|call|>{}"), [SpecialToken("<|call|>", ""), "{}"])


def test_the_header_of_a_call_is_left_to_the_parser_of_calls() -> None:
    special = FAMILIES["gpt-oss"].special
    header = "<|start|>assistant<|channel|>commentary to=functions.f json<|message|>"
    text = tokens(f"<|channel|>analysis<|message|>hm<|end|>{header}{{}}", special)
    assert join(feed(ReasoningParser(HARMONY), text, special)) == ("hm", header + "{}")


def test_special_tokens_that_mark_nothing_are_passed_on() -> None:
    parser = ReasoningParser(THINK)
    outputs = [*parser.feed_special("<|x|>", "<|x|>"), *parser.feed("<think>")]
    assert outputs[0] == SpecialToken("<|x|>", "<|x|>")
    assert join(outputs) == ("", "<|x|><think>")
    parser = ReasoningParser(THINK, THINK.sections[0])
    assert parser.feed_special("<|x|>", "<|x|>") == [ReasoningDelta("<|x|>")]


def test_whether_the_text_so_far_ends_in_reasoning_is_known() -> None:
    parser = ReasoningParser(THINK)
    states = []
    for chunk in ("<", "think>", "a", "</think", ">", "b"):
        parser.feed(chunk)
        states.append(parser.in_reasoning)
    assert states == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("message", "rest", "expected"),
    [
        ("<think>\nLet me", " see</think> 4", (" see", "4")),
        ("<think>", "\nLet me</think>4", ("Let me", "4")),
        ("<think>a</think>", "\n4 <think>", ("", "4 <think>")),
        ("The answer", " is <think>", ("", " is <think>")),
        ("", "<think>a</think>4", ("a", "4")),
    ],
)
def test_a_continued_message_is_not_repeated(message: str, rest: str, expected: tuple[str, str]) -> None:
    parser = ReasoningParser(THINK)
    parser.skip(message)
    assert join(feed(parser, rest)) == expected


@given(text=st.text("<>/think \n[]|a", max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_text_is_lost(text: str) -> None:
    reasoning, rest = parse(text)
    left_out = re.sub(r"<think>|</think>|\s", "", text)
    assert re.sub(r"<think>|</think>|\s", "", reasoning + rest) == left_out
    if "think>" not in text:
        assert (reasoning, rest) == ("", text)
