"""Calls in every format, text without calls, and incomplete calls, for any chunking of an answer."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.events import CallDelta
from inference.text.tool_parsers.stream import ToolParser
from inference.types import Tool
from tests.text.joined_output import JSON, PARIS, TOOLS, join_items, parse, parse_complete
from tests.text.tool_parsers.family_calls import FAMILY_CALLS, PARIS_AND_NOW, SPECIAL_TAGS

CALLS = {
    JSON: [PARIS],
    '\n {"name":"weather","arguments":{"city":"Paris"}}\n': [PARIS],
    '{"type": "function", "name": "weather", "parameters": {"city": "Paris"}}': [PARIS],
    '{"parameters": {"city": "Paris"}, "name": "weather", "id": "x"}': [PARIS],
    '{"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}': [PARIS],
    '{"function": "weather", "parameters": {"city": "Paris"}}': [PARIS],
    '{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}': [PARIS],
    f"{JSON}; {JSON}": [PARIS, PARIS],
    f"{JSON}\n{JSON}": [PARIS, PARIS],
    f"[{JSON}, {JSON}]": [PARIS, PARIS],
    f"<|python_tag|>{JSON}": [PARIS],
    f"<tool_call>\n{JSON}\n</tool_call>": [PARIS],
    f"<tool_call>{JSON}</tool_call>\n<tool_call>\n{JSON}\n</tool_call>": [PARIS, PARIS],
    f"[TOOL_CALLS][{JSON}]": [PARIS],
    f"[TOOL_CALLS] [{JSON}, {JSON}]": [PARIS, PARIS],
    '<function=weather>{"city": "Paris"}</function>': [PARIS],
    "<function=now></function>": [("now", {})],
    '[weather(city="Paris")]': [PARIS],
    "[weather(city='Paris'), now(), a.b-c(x=-1.5, y=[1, {'z': true}], n=None)]": [
        PARIS,
        ("now", {}),
        ("a.b-c", {"x": -1.5, "y": [1, {"z": True}], "n": None}),
    ],
    '{"name": "weather", "parameters": {"a": "}\\"{", "b": [1, {"c": null}]}}': [
        ("weather", {"a": '}"{', "b": [1, {"c": None}]})
    ],
    "[weather(city=')]\\'(')]": [("weather", {"city": ")]'("})],
    '{"name": "weather", "parameters": {"city": "東京 😀"}}': [("weather", {"city": "東京 😀"})],
    '{"name": "weather", "parameters": {"city": "\\ud83d"}}': [("weather", {"city": "\ud83d"})],
    '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}': [PARIS],
    '[TOOL_CALLS]weather{"city": "Paris"}[TOOL_CALLS]now{}': [PARIS, ("now", {})],
    '[{"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Paris"}}]': [PARIS],
    "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>": [
        PARIS
    ],
    "<function=weather><parameter=city>1</parameter> <parameter=days>[1, 2]</parameter></function>": [
        ("weather", {"city": "1", "days": [1, 2]})
    ],
    "<function=now><parameter=zone>Europe/Paris</parameter></function>": [("now", {"zone": "Europe/Paris"})],
    "[weather(city='\\ud83d')]": [("weather", {"city": "\ud83d"})],
    **dict.fromkeys(FAMILY_CALLS.values(), PARIS_AND_NOW),
}
TEXTS = (
    "Hello, world.",
    '{"city": "Paris"}',
    '{"name": "unknown", "parameters": {}}',
    '{"name": "weather"}',
    '{"name": "weather", "parameters": [1]}',
    '{"name": "weather", "arguments": "no object"}',
    '{"parameters": {"city": "Paris"}, "name": "weather"',
    '{"parameters": {"x": NaN}, "name": "weather"}',
    '{"name": "weather", "name": "now", "parameters": {}}',
    "[1] a footnote, [2] another",
    "[weather(city=open('x'))]",
    "[weather('Paris')]",
    "[weather(**{'a': 1})]",
    "[weather(city='Paris'), unknown()]",
    "[weather(x=" + "-" * 5000 + "1)]",
    '{"function": ' * 2000,
    "[weather(x={1, 2})]",
    "[weather]",
    "[]",
    "<function=unknown>{}</function>",
    "<function=weather>[1]</function>",
    "<function=weather>oops</function>",
    "<function=weather><parameter=city>Paris",
    "<function=weather><parameter=city>Paris</parameter></func>",
    "weather is fine",
    "weathers{}",
    "weather{1}",
    "weather[ARGS]Paris",
    "a < b, <b>bold</b>, <tool_cal",
    "<tool_call>not JSON</tool_call>",
    "</tool_call>",
    "<tool_call>unknown<arg_key>",
    "<tool_call>weather<arg_key>city</arg_key><arg_val>",
    "<|tool_call>call:weather{city}<tool_call|>",
    "<|tool_call>call:unknown{}<tool_call|>",
    "<|tool_call_begin|>functions.unknown:0<|tool_call_argument_begin|>{}",
    "<|tool_call_begin|>" + "functions." * 30,
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>unknown\n```json\n{}\n```",
    '<invoke name="weather"><parameter name="city">Paris</invoke>',
    "<|channel|>final<|message|>weather",
    " to=all of you",
    "to=unknown<|message|>{}",
    '<|tools_prefix|>[{"unknown": {}}]',
    "<function_calls>\nunknown()\n</function_calls>",
    "<function_calls></function_calls>",
    f"The call is {JSON}",
    "  \n ",
)
# Text that is no call but begins as one: the text after it, and the arguments as far as they were emitted.
BROKEN = {
    '{"name": "weather", "parameters": {"city": "Paris"}': ("", '{"city": "Paris"}'),
    '{"name": "weather", "parameters": {"city": "Par': ("", '{"city": "Par'),
    '{"name": "weather", "parameters": {"city": Paris}}': ("}}", '{"city": Paris'),
    '{"name": "weather", "parameters": {"x": [1}} so': ("}} so", '{"x": [1'),
    '{"name": "weather", "parameters": {"a": 1}, "more": 2}': (', "more": 2}', '{"a": 1}'),
    '{"name": "weather", "parameters": {"a": 1}, "arguments": {"a": 2}}': (
        ', "arguments": {"a": 2}}',
        '{"a": 1}',
    ),
    '{"name": "weather", "parameters": ' + '{"a":' * 65: ('{"a":', '{"a":' * 64),
}


@pytest.mark.parametrize("full_text", CALLS)
def test_every_call_format_is_parsed(full_text: str) -> None:
    text, calls = parse_complete(full_text)
    assert calls == CALLS[full_text]
    assert text == ""


@pytest.mark.parametrize("text", TEXTS)
def test_text_without_a_call_stays_unchanged(text: str) -> None:
    assert parse_complete(text) == (text, [])


@pytest.mark.parametrize("text", BROKEN)
def test_a_call_that_breaks_off_is_emitted_as_far_as_it_arrived(text: str) -> None:
    rest, arguments = BROKEN[text]
    assert parse(text) == (rest, [("weather", arguments, False)])
    assert parse(*text) == parse(text)


def test_text_after_the_calls_of_a_broken_list_is_emitted() -> None:
    assert parse_complete(f"[{JSON}, 3] so") == (", 3] so", [PARIS])


SCRAPS = [
    *CALLS,
    *BROKEN,
    *TEXTS,
    "<",
    "[",
    "{",
    '"',
    "weather",
    "(",
    ")",
    ";",
    " ",
    "<tool_call>",
    "</tool_call>",
    "x",
]


@given(scraps=st.lists(st.sampled_from(SCRAPS), max_size=5), cuts=st.sets(st.integers(0, 300), max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_chunking_of_an_answer_is_parsed_alike(scraps: list[str], cuts: set[int]) -> None:
    text = "".join(scraps)
    edges = [0, *sorted(edge for edge in cuts if edge < len(text)), len(text)]
    chunks = [text[a:b] for a, b in pairwise(edges)]
    assert parse(*chunks) == parse(text)
    if not parse(text)[1]:
        assert parse(text)[0] == text


@given(full_text=st.text("{}[]<>()\"'\\:,; =wnatherfucio1/_.|", max_size=80))
@settings(max_examples=200, deadline=None)
def test_no_text_is_lost_or_raises(full_text: str) -> None:
    text, calls = parse(full_text)
    assert calls or text == full_text


def test_text_around_a_tagged_call_is_emitted() -> None:
    assert parse_complete(f"Let me look.\n<tool_call>{JSON}</tool_call> Done.") == (
        "Let me look.\n Done.",
        [PARIS],
    )


def test_an_untagged_call_counts_only_at_the_beginning_of_an_answer() -> None:
    assert parse_complete(f"Like this: {JSON}")[1] == []
    assert parse_complete(f"Like this: <tool_call>{JSON}")[1] == [PARIS]


def test_a_special_token_allows_a_call_after_text() -> None:
    calls = ToolParser(TOOLS)
    items = [
        *calls.feed("Let me look."),
        *calls.feed_special("<|x|>"),
        *calls.feed(JSON),
        *calls.feed_special("<|y|>"),
        *calls.flush(),
    ]
    assert "".join(item for item in items if isinstance(item, str)) == "Let me look."
    assert [item.name for item in items if isinstance(item, CallDelta)] == ["weather"]


@pytest.mark.parametrize("family", FAMILY_CALLS)
def test_tags_may_be_special_tokens(family: str) -> None:
    for is_visible in (False, True):
        calls = ToolParser(TOOLS)
        before = "Let me look." * ("at once" not in family)
        items = calls.feed(before)
        for segment in filter(None, SPECIAL_TAGS.split(FAMILY_CALLS[family])):
            is_tag = SPECIAL_TAGS.fullmatch(segment)
            items += calls.feed_special(segment, segment * is_visible) if is_tag else calls.feed(segment)
        text, deltas = join_items(items + calls.flush())
        assert text == before
        assert [(name, json.loads(arguments), done) for name, arguments, done in deltas] == [
            (*call, True) for call in PARIS_AND_NOW
        ]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "1", "1"),
        ({"type": ["string", "null"]}, "1", "1"),
        ({"type": ["string", "null"]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "1", 1),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "1.5", "1.5"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "boolean"}, "True", True),
        ({"type": ["string", "null"]}, "None", None),
        ({"type": "object"}, "{'a': [True, None]}", {"a": [True, None]}),
        ({}, "{'a': 1}", "{'a': 1}"),
        ({"type": "array"}, "open('x')", "open('x')"),
        ({"type": 3, "anyOf": None, "enum": {}}, "1", 1),
        ({"type": "string"}, "\n  a\n\n", "  a\n"),
        ({"type": "string"}, "a\n", "a\n"),
    ],
)
def test_a_parameter_in_tags_has_a_type_of_its_schema(schema: dict, text: str, value: object) -> None:
    tool = Tool("f", "", {"properties": {"x": schema}})
    for call in (
        f"<function=f><parameter=x>{text}</parameter></function>",
        f"<tool_call>f<arg_key>x</arg_key><arg_value>{text}</arg_value></tool_call>",
    ):
        [delta] = [item for item in ToolParser([tool]).feed(call) if isinstance(item, CallDelta)]
        assert json.loads(delta.arguments) == {"x": value}


def test_a_channel_without_a_call_is_text() -> None:
    calls = ToolParser(TOOLS)
    items = [*calls.feed_special("<|channel|>"), *calls.feed("analysis"), *calls.feed_special("<|message|>")]
    assert join_items([*items, *calls.feed("Rain?")]) == ("analysisRain?", [])


def test_endless_tags_are_text() -> None:
    for tag in (
        "<tool_call>",
        "<|tool_call_begin|>",
        "[TOOL_CALLS]",
        "<|tool_call>call:now{a:[",
        "<tool_calls>\n",
    ):
        assert parse(tag * 2000) == (tag * 2000, [])


def test_a_special_token_may_separate_a_name_from_its_arguments() -> None:
    calls = ToolParser(TOOLS)
    items = [
        *calls.feed_special("[TOOL_CALLS]"),
        *calls.feed("weather"),
        *calls.feed_special("[ARGS]"),
        *calls.feed('{"city": "Paris"}'),
    ]
    assert [item.arguments for item in items if isinstance(item, CallDelta)] == ['{"city": "Paris"}']
    assert len(items) == 1


def test_a_special_token_within_a_call_makes_it_text() -> None:
    calls = ToolParser(TOOLS)
    items = [
        *calls.feed('{"name": "weather", "par'),
        *calls.feed_special("<|x|>"),
        *calls.feed("x"),
        *calls.flush(),
    ]
    assert items == ['{"name": "weather", "par', "x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", "Hello"),
        ("1 < 2", "1 < 2"),
        ("[1", "[1"),
        ("{ x", "{ x"),
        ('{"city"', '{"city"'),
        ('{"name": "none"', '{"name": "none"'),
        ("say <tool_", "say "),
        ("<tool_bar", "<tool_bar"),
        ("[wea", ""),
        ("[web", "[web"),
    ],
)
def test_text_is_emitted_as_soon_as_it_cannot_be_a_call(text: str, expected: str) -> None:
    assert "".join(str(item) for item in ToolParser(TOOLS).feed(text)) == expected
