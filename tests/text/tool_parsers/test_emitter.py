"""Tool calls in deltas: what may be emitted before a call is complete, and what the deltas add up to."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.events import CallDelta
from inference.text.tool_parsers.stream import ToolParser
from tests.text.joined_output import JSON, TOOLS, join_items, parse

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
WRITTEN = {
    "auto": '{{"type": "function", "function": {{"name": "now", "parameters": {0}}}}}',
    "llama": '{{"name": "now", "parameters": {0}}}',
    "hermes": '<tool_call>\n{{"name": "now", "arguments": {0}}}\n</tool_call>',
    "mistral": '[TOOL_CALLS] [{{"name": "now", "arguments": {0}}}]',
}


@pytest.mark.parametrize("tool_format", WRITTEN)
@given(
    arguments=st.lists(st.dictionaries(words, values, max_size=3), min_size=1, max_size=3),
    indent=st.sampled_from([None, 2]),
    cuts=st.sets(st.integers(0, 400), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_the_joined_deltas_of_a_call_are_its_exact_json(
    tool_format: str, arguments: list[dict], indent: int | None, cuts: set[int]
) -> None:
    texts = [json.dumps(value, indent=indent) for value in arguments]
    full_text = "\n".join(WRITTEN[tool_format].format(text) for text in texts)
    edges = [0, *sorted(edge for edge in cuts if edge < len(full_text)), len(full_text)]
    parsed = parse(*(full_text[a:b] for a, b in pairwise(edges)), tool_format=tool_format)
    assert parsed == ("", [("now", text, True) for text in texts])


def test_a_call_is_emitted_as_it_arrives() -> None:
    calls = ToolParser(TOOLS)
    outputs = [
        calls.feed(item) for item in ('{"name": "wea', 'ther", "parameters": {', '"city"', ": ", "1}", "}")
    ]
    assert outputs[0] == []
    deltas = [[(item.arguments, item.done) for item in items] for items in outputs[1:]]
    assert deltas == [[("{", False)], [('"city"', False)], [(": ", False)], [("1}", False)], [("", True)]]


OPEN_ENDED_CALLS = (
    '{"parameters": {"city": "Paris"}, "name": "weather"}',
    '{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}',
    '[weather(city="Paris")]',
    "<function=weather><parameter=city>Paris</parameter></function>",
    'weather{"city": "Paris"}',
)


@pytest.mark.parametrize("text", OPEN_ENDED_CALLS)
def test_a_call_whose_format_is_undecided_to_the_end_is_emitted_whole(text: str) -> None:
    calls = ToolParser(TOOLS)
    *before, last = [calls.feed(char) for char in text]
    assert not any(before)
    assert [item.done for item in last if isinstance(item, CallDelta)] == [True]


@pytest.mark.parametrize(
    "full_text", [f"{JSON}; {JSON} x", f"[{JSON}, {JSON}]", "[now(), weather(), 3", f"{JSON}x"]
)
def test_nothing_is_emitted_after_the_only_call(full_text: str) -> None:
    text, calls = parse(*full_text, parallel=False)
    assert (text, len(calls)) == ((full_text, 0) if full_text.startswith("[now") else ("", 1))


def test_the_name_of_a_special_token_is_text_unless_a_call_follows() -> None:
    calls = ToolParser(TOOLS)
    items = [
        *calls.feed("a"),
        *calls.feed_special("<|x|>", "<|x|>"),
        *calls.feed("b"),
        *calls.feed_special("<|y|>", "<|y|>"),
        *calls.feed(JSON),
    ]
    assert join_items([*items, *calls.flush()])[0] == "a<|x|>b"


def test_ids_of_calls_differ() -> None:
    items = ToolParser(TOOLS, index=3).feed(f"{JSON};{JSON}")
    assert len({item.id for item in items if isinstance(item, CallDelta)}) == 2
    assert {item.index for item in items if isinstance(item, CallDelta)} == {3}


def test_a_long_call_is_parsed_in_linear_time() -> None:
    calls = ToolParser(TOOLS)
    items = calls.feed('{"name": "weather", "parameters": {"city": "')
    items += [item for _ in range(20_000) for item in calls.feed("x" * 10)]
    _, [(_, arguments, done)] = join_items([*items, *calls.feed('"}}')])
    assert done
    assert len(arguments) > 200_000
