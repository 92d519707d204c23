"""Calls in every format, text that is none, and what lies between: however an answer is split."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.toolcalls import ToolCalls
from inference.types import CallDelta
from tests.text.listening import JSON, PARIS, TOOLS, listen, read

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
    f"The call is {JSON}",
    "  \n ",
)
# What is no call, but had begun as one: (the text behind it, its arguments as far as they came)
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


@pytest.mark.parametrize("answer", CALLS)
def test_every_format_of_call_is_read(answer: str) -> None:
    text, calls = read(answer)
    assert calls == CALLS[answer]
    assert text == ""


@pytest.mark.parametrize("answer", TEXTS)
def test_what_is_no_call_stays_text_to_the_letter(answer: str) -> None:
    assert read(answer) == (answer, [])


@pytest.mark.parametrize("answer", BROKEN)
def test_a_call_that_breaks_off_is_told_as_far_as_it_came(answer: str) -> None:
    rest, arguments = BROKEN[answer]
    assert listen(answer) == (rest, [("weather", arguments, False)])
    assert listen(*answer) == listen(answer)


def test_what_follows_the_calls_of_a_broken_list_is_text() -> None:
    assert read(f"[{JSON}, 3] so") == (", 3] so", [PARIS])


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
def test_however_an_answer_is_split_the_same_is_read(scraps: list[str], cuts: set[int]) -> None:
    answer = "".join(scraps)
    edges = [0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)]
    pieces = [answer[a:b] for a, b in pairwise(edges)]
    assert listen(*pieces) == listen(answer)
    if not listen(answer)[1]:
        assert listen(answer)[0] == answer


@given(answer=st.text("{}[]<>()\"'\\:,; =wnatherfucio1/_.|", max_size=80))
@settings(max_examples=200, deadline=None)
def test_no_text_is_lost_or_raises(answer: str) -> None:
    text, calls = listen(answer)
    assert calls or text == answer


def test_words_around_a_tagged_call_are_told() -> None:
    assert read(f"Let me look.\n<tool_call>{JSON}</tool_call> Done.") == ("Let me look.\n Done.", [PARIS])


def test_a_call_without_a_tag_counts_only_where_the_answer_begins() -> None:
    assert read(f"Like this: {JSON}")[1] == []
    assert read(f"Like this: <tool_call>{JSON}")[1] == [PARIS]


def test_a_special_token_opens_the_way_for_a_call() -> None:
    calls = ToolCalls(TOOLS)
    told = [*calls.feed("Let me look."), *calls.mark(), *calls.feed(JSON), *calls.mark(), *calls.flush()]
    assert "".join(piece for piece in told if isinstance(piece, str)) == "Let me look."
    assert [piece.name for piece in told if isinstance(piece, CallDelta)] == ["weather"]


def test_a_special_token_may_part_a_name_from_its_arguments() -> None:
    calls = ToolCalls(TOOLS)
    told = [*calls.mark(), *calls.feed("weather"), *calls.mark(), *calls.feed('{"city": "Paris"}')]
    assert [piece.arguments for piece in told if isinstance(piece, CallDelta)] == ['{"city": "Paris"}']
    assert len(told) == 1


def test_a_special_token_within_a_call_makes_it_text() -> None:
    calls = ToolCalls(TOOLS)
    told = [*calls.feed('{"name": "weather", "par'), *calls.mark(), *calls.feed("x"), *calls.flush()]
    assert told == ['{"name": "weather", "par', "x"]


@pytest.mark.parametrize(
    ("answer", "told"),
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
def test_text_is_told_as_soon_as_it_can_be_no_call(answer: str, told: str) -> None:
    assert "".join(str(piece) for piece in ToolCalls(TOOLS).feed(answer)) == told
