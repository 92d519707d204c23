"""Answers that end together: at the token with which the last one has stopped."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.neodim.stops import Watch, finder
from api.neodim.together import Nothing, Together
from inference.errors import BadRequest, Internal
from inference.types import Event, Finished, GenerationRequest, Token
from tests.api.neodim.tokenizers import ScriptedBackend
from tests.fake_backend import FakeStream


def play(
    *scripts: str, turns: Sequence[int] = (), stops: Sequence[str] = (".",)
) -> tuple[Together, FakeStream]:
    """Letters as tokens."""
    backend = ScriptedBackend("chars", *map(list, scripts), turns=turns)
    found = finder(stops, "string")
    watches = [Watch(found, 1) for _ in scripts]
    inner = backend.generate(GenerationRequest((), max_tokens=8, n=len(scripts)))
    return Together(inner, watches), inner


def texts(events: list[Event], answers: int) -> list[str]:
    return [
        "".join(event.text for event in events if isinstance(event, Token) and event.index == index)
        for index in range(answers)
    ]


def ends(events: list[Event]) -> list[int]:
    return [event.tokens for event in events if isinstance(event, Finished)]


@pytest.mark.parametrize(
    "turns",
    [(), [0] * 8, [0] * 8 + [1] * 8, [1] * 8, [0, 0, 0, 1, 1, 1, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0, 1, 1, 1]],
)
def test_who_has_stopped_goes_on_until_all_have_however_their_turns_fall(turns: Sequence[int]) -> None:
    stream, inner = play("a.bcdefg", "abcd.efg", turns=turns)
    events = list(stream)
    assert texts(events, 2) == ["a.bcd", "abcd."]
    assert ends(events) == [5, 5]
    assert inner.closed_at


@given(
    scripts=st.lists(st.text("ab.", min_size=1, max_size=8), min_size=1, max_size=3),
    turns=st.lists(st.integers(0, 2), max_size=30),
)
def test_what_is_told_does_not_depend_on_the_turns(scripts: list[str], turns: list[int]) -> None:
    stops = [script.find(".") + 1 or len(script) for script in scripts]
    stream, _ = play(*scripts, turns=[turn for turn in turns if turn < len(scripts)])
    assert texts(list(stream), len(scripts)) == [script[: max(stops)] for script in scripts]


def test_nothing_beyond_the_common_end_is_ever_told() -> None:
    stream, _ = play("a.bcdefg", "ab.defgh", turns=[0, 0, 0, 0, 0, 1, 1])
    told: list[Event] = []
    for event in stream:
        told.append(event)
        if isinstance(event, Token):
            assert texts(told, 2)[0] in ("a", "a.", "a.b")
    assert texts(told, 2) == ["a.b", "ab."]


def test_who_never_stops_runs_to_the_end_and_the_others_with_it() -> None:
    stream, _ = play("a.bcdefghi", "abcdefghi")
    assert texts(list(stream), 2) == ["a.bcdefg", "abcdefgh"]


def test_who_ends_by_itself_waits_for_nobody_and_nobody_for_it() -> None:
    stream, _ = play("ab", "abc.e")
    events = list(stream)
    assert texts(events, 2) == ["ab", "abc."]
    assert ends(events) == [2, 4]


def test_who_ran_ahead_to_its_end_is_told_to_the_common_end_alone() -> None:
    stream, _ = play("a.bcdefg", "abc.efgh", turns=[0] * 9 + [1] * 9)
    events = list(stream)
    assert texts(events, 2) == ["a.bc", "abc."]
    assert ends(events) == [4, 4]


def test_pushed_and_pulled_it_is_the_same() -> None:
    for turns in ((), [0] * 8, [1] * 8):
        pushed: list[Event] = []
        stream, inner = play("a.bcdefg", "abcd.efg", turns=turns)
        steps = [step for step in inner.steps if not isinstance(step, float)]
        inner.start = lambda sink, steps=steps: [sink(steps[i : i + 3]) for i in range(0, len(steps), 3)]  # type: ignore
        stream.start(pushed.extend)
        pulled, _ = play("a.bcdefg", "abcd.efg", turns=turns)
        assert texts(pushed, 2) == texts(list(pulled), 2) == ["a.bcd", "abcd."]
        assert ends(pushed) == [5, 5]


def test_an_error_of_the_stream_is_handed_on() -> None:
    stream, inner = play("abc")
    inner.steps.insert(2, Internal("broken"))
    with pytest.raises(Internal, match="broken"):
        list(stream)


def test_a_pattern_that_takes_too_long_ends_it_with_an_error_pushed_too() -> None:
    backend = ScriptedBackend("chars", ["a" * 5000])
    watch = Watch(finder(["(?R)"], "regex"), 1)
    inner = backend.generate(GenerationRequest((), max_tokens=8))
    events = [step for step in inner.steps if not isinstance(step, float)]
    inner.start = lambda sink: sink(events)  # type: ignore[method-assign]
    came: list[object] = []
    Together(inner, [watch]).start(came.append)
    assert isinstance(came[0], BadRequest)
    assert inner.closed_at


def test_nothing_is_as_many_ends_as_there_are_answers() -> None:
    assert list(Nothing(2)) == [Finished(0, "length"), Finished(1, "length")]
    pushed: list[Event] = []
    Nothing(2).start(pushed.extend)
    assert [event.index for event in pushed] == [0, 1]
