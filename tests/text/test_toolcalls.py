import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.text.calls import CALL_FORMATS, format_of
from inference.text.telling import Piece
from inference.text.toolcalls import ToolCalls
from inference.types import CallDelta, Tool

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (Tool("weather", "", CITY), Tool("now", "", {}), Tool("a.b-c", "", {}))
Told = tuple[str, list[tuple[str, dict]]]
Heard = tuple[str, list[tuple[str, str, bool]]]


def heard(told: list[Piece]) -> Heard:
    """(the text, each call's name, arguments, and whether it is done), joined from what is told."""
    calls: dict[int, tuple[str, str, str, bool]] = {}
    for delta in told:
        if isinstance(delta, CallDelta):
            id, name, arguments, done = calls.get(delta.number, (delta.id, delta.name, "", False))
            assert (id, name, done) == (delta.id, delta.name, False)
            calls[delta.number] = (id, name, arguments + delta.arguments, delta.done)
    assert list(calls) == list(range(len(calls)))
    text = "".join(piece for piece in told if isinstance(piece, str))
    return text, [call[1:] for call in calls.values()]


def listen(*pieces: str, form: str = "auto", parallel: bool = True) -> Heard:
    """What is heard of an answer that comes in these pieces."""
    calls = ToolCalls(TOOLS, form=form, parallel=parallel)
    return heard([out for piece in pieces for out in calls.feed(piece)] + calls.flush())


def read(*pieces: str, form: str = "auto") -> Told:
    """The same of an answer whose calls are complete."""
    text, calls = listen(*pieces, form=form)
    assert all(done for _, _, done in calls)
    return text, [(name, json.loads(arguments)) for name, arguments, _ in calls]


PARIS = ("weather", {"city": "Paris"})
JSON = '{"name": "weather", "parameters": {"city": "Paris"}}'
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


FUNCTION = '<function=weather>{"city": "Paris"}</function>'
MINE = {
    "llama": [
        JSON,
        f"<|python_tag|>{JSON}",
        f"{JSON}; {JSON}",
        FUNCTION,
    ],
    "hermes": [f"<tool_call>\n{JSON}\n</tool_call>", "<function=now></function>"],
    "mistral": [f"[TOOL_CALLS] [{JSON}]", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}'],
    "python": ['[weather(city="Paris"), now()]'],
}


@pytest.mark.parametrize("form", CALL_FORMATS)
def test_a_format_reads_its_own_calls_and_no_others(form: str) -> None:
    assert all(listen(answer, form=form) == listen(answer) for answer in MINE[form])
    others = {answer for other in MINE if other != form for answer in MINE[other]} - set(MINE[form])
    others -= {FUNCTION, "<function=now></function>"}  # two formats have them
    for answer in others:
        assert listen(answer, form=form) == (answer, [])


@pytest.mark.parametrize("form", ["hermes", "mistral"])
def test_behind_a_special_token_no_tag_is_needed(form: str) -> None:
    calls = ToolCalls(TOOLS, form=form)
    answer = {"hermes": f"\n{JSON}\n", "mistral": f"[{JSON}]"}[form]
    told = [*calls.mark(), *calls.feed(answer), *calls.mark(), *calls.flush()]
    assert [call[0] for call in heard(told)[1]] == ["weather"]


def test_the_name_of_a_special_token_is_text_unless_a_call_follows() -> None:
    calls = ToolCalls(TOOLS)
    told = [*calls.feed("a"), *calls.mark("<|x|>"), *calls.feed("b"), *calls.mark("<|y|>"), *calls.feed(JSON)]
    assert heard([*told, *calls.flush()])[0] == "a<|x|>b"


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{{ '<tool_call>' }}", "hermes"),
        ("[TOOL_CALLS]", "mistral"),
        ("<|python_tag|> {{ tools }}", "llama"),
        ("<|python_start|>", "python"),
        ("{{ messages }}", "llama"),
    ],
)
def test_a_template_tells_its_models_format(template: str, form: str) -> None:
    assert format_of(template) == form


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
