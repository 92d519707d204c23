"""Calls told in pieces: what may be told before a call is complete, and what its pieces come to."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.toolcalls import ToolCalls
from inference.types import CallDelta
from tests.text.listening import JSON, TOOLS, heard, listen

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


@pytest.mark.parametrize("form", WRITTEN)
@given(
    arguments=st.lists(st.dictionaries(words, values, max_size=3), min_size=1, max_size=3),
    indent=st.sampled_from([None, 2]),
    cuts=st.sets(st.integers(0, 400), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_joined_the_pieces_of_a_call_are_its_json_to_the_letter(
    form: str, arguments: list[dict], indent: int | None, cuts: set[int]
) -> None:
    texts = [json.dumps(given, indent=indent) for given in arguments]
    answer = "\n".join(WRITTEN[form].format(text) for text in texts)
    edges = [0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)]
    told = listen(*(answer[a:b] for a, b in pairwise(edges)), form=form)
    assert told == ("", [("now", text, True) for text in texts])


def test_a_call_is_told_as_it_comes() -> None:
    calls = ToolCalls(TOOLS)
    told = [
        calls.feed(piece) for piece in ('{"name": "wea', 'ther", "parameters": {', '"city"', ": ", "1}", "}")
    ]
    assert told[0] == []
    news = [[(piece.arguments, piece.done) for piece in pieces] for pieces in told[1:]]
    assert news == [[("{", False)], [('"city"', False)], [(": ", False)], [("1}", False)], [("", True)]]


WHOLE = (
    '{"parameters": {"city": "Paris"}, "name": "weather"}',
    '{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}',
    '[weather(city="Paris")]',
    "<function=weather><parameter=city>Paris</parameter></function>",
    'weather{"city": "Paris"}',
)


@pytest.mark.parametrize("answer", WHOLE)
def test_a_call_whose_shape_is_open_to_the_end_is_told_whole(answer: str) -> None:
    calls = ToolCalls(TOOLS)
    *before, last = [calls.feed(char) for char in answer]
    assert not any(before)
    assert [piece.done for piece in last if isinstance(piece, CallDelta)] == [True]


@pytest.mark.parametrize(
    "answer", [f"{JSON}; {JSON} x", f"[{JSON}, {JSON}]", "[now(), weather(), 3", f"{JSON}x"]
)
def test_nothing_is_told_behind_the_only_call(answer: str) -> None:
    text, calls = listen(*answer, parallel=False)
    assert (text, len(calls)) == ((answer, 0) if answer.startswith("[now") else ("", 1))


def test_the_name_of_a_special_token_is_text_unless_a_call_follows() -> None:
    calls = ToolCalls(TOOLS)
    told = [*calls.feed("a"), *calls.mark("<|x|>"), *calls.feed("b"), *calls.mark("<|y|>"), *calls.feed(JSON)]
    assert heard([*told, *calls.flush()])[0] == "a<|x|>b"


def test_ids_of_calls_differ() -> None:
    told = ToolCalls(TOOLS, index=3).feed(f"{JSON};{JSON}")
    assert len({piece.id for piece in told if isinstance(piece, CallDelta)}) == 2
    assert {piece.index for piece in told if isinstance(piece, CallDelta)} == {3}


def test_a_long_call_is_read_in_linear_time() -> None:
    calls = ToolCalls(TOOLS)
    told = calls.feed('{"name": "weather", "parameters": {"city": "')
    told += [piece for _ in range(20_000) for piece in calls.feed("x" * 10)]
    _, [(_, arguments, done)] = heard([*told, *calls.feed('"}}')])
    assert done
    assert len(arguments) > 200_000
