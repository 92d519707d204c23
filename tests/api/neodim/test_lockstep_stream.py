"""Answers in lockstep: all end at the token with which the last of them stops."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.neodim.lockstep_stream import EmptyStream, LockstepStream
from api.neodim.stop_strings import StopTracker, make_finder
from inference.errors import BadRequest, Internal
from inference.events import Event, Finished, Token
from inference.types import GenerationRequest
from tests.api.neodim.tokenizers import ScriptedBackend
from tests.fakes.fake_backend import FakeStream


def ignore(events: list[Event]) -> None: ...


def play(
    *scripts: str, turns: Sequence[int] = (), stops: Sequence[str] = (".",)
) -> tuple[LockstepStream, FakeStream]:
    """A lockstep stream over answers whose tokens are single letters, and its inner stream."""
    backend = ScriptedBackend("chars", *map(list, scripts), turns=turns)
    stop_finder = make_finder(stops, "string")
    trackers = [StopTracker(stop_finder, 1) for _ in scripts]
    inner = backend.generate(GenerationRequest((), max_tokens=8, n=len(scripts)))
    return LockstepStream(inner, trackers, ignore), inner


def texts(events: list[Event], count: int) -> list[str]:
    return [
        "".join(event.text for event in events if isinstance(event, Token) and event.index == index)
        for index in range(count)
    ]


def ends(events: list[Event]) -> list[int]:
    return [event.num_tokens for event in events if isinstance(event, Finished)]


@pytest.mark.parametrize(
    "turns",
    [(), [0] * 8, [0] * 8 + [1] * 8, [1] * 8, [0, 0, 0, 1, 1, 1, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0, 1, 1, 1]],
)
def test_a_stopped_answer_continues_until_all_have_stopped_in_any_order_of_tokens(
    turns: Sequence[int],
) -> None:
    stream, inner = play("a.bcdefg", "abcd.efg", turns=turns)
    events = list(stream)
    assert texts(events, 2) == ["a.bcd", "abcd."]
    assert ends(events) == [5, 5]
    assert inner.closed_at


@given(
    scripts=st.lists(st.text("ab.", min_size=1, max_size=8), min_size=1, max_size=3),
    turns=st.lists(st.integers(0, 2), max_size=30),
)
def test_the_order_of_tokens_does_not_change_what_is_sent(scripts: list[str], turns: list[int]) -> None:
    stops = [script.find(".") + 1 or len(script) for script in scripts]
    stream, _ = play(*scripts, turns=[turn for turn in turns if turn < len(scripts)])
    assert texts(list(stream), len(scripts)) == [script[: max(stops)] for script in scripts]


def test_nothing_beyond_the_common_end_is_sent() -> None:
    stream, _ = play("a.bcdefg", "ab.defgh", turns=[0, 0, 0, 0, 0, 1, 1])
    events: list[Event] = []
    for event in stream:
        events.append(event)
        if isinstance(event, Token):
            assert texts(events, 2)[0] in ("a", "a.", "a.b")
    assert texts(events, 2) == ["a.b", "ab."]


def test_if_one_answer_never_stops_all_run_to_the_end() -> None:
    stream, _ = play("a.bcdefghi", "abcdefghi")
    assert texts(list(stream), 2) == ["a.bcdefg", "abcdefgh"]


def test_an_answer_that_ends_by_itself_does_not_affect_the_others() -> None:
    stream, _ = play("ab", "abc.e")
    events = list(stream)
    assert texts(events, 2) == ["ab", "abc."]
    assert ends(events) == [2, 4]


def test_an_answer_that_finished_first_is_sent_up_to_the_common_end() -> None:
    stream, _ = play("a.bcdefg", "abc.efgh", turns=[0] * 9 + [1] * 9)
    events = list(stream)
    assert texts(events, 2) == ["a.bc", "abc."]
    assert ends(events) == [4, 4]


def test_a_pushed_stream_equals_a_pulled_one() -> None:
    for turns in ((), [0] * 8, [1] * 8):
        pushed: list[Event] = []
        stream, inner = play("a.bcdefg", "abcd.efg", turns=turns)
        steps = [step for step in inner.script_steps if not isinstance(step, float)]
        inner.start = lambda sink, steps=steps: [sink(steps[i : i + 3]) for i in range(0, len(steps), 3)]  # type: ignore
        stream.start(pushed.extend)
        pulled, _ = play("a.bcdefg", "abcd.efg", turns=turns)
        assert texts(pushed, 2) == texts(list(pulled), 2) == ["a.bcd", "abcd."]
        assert ends(pushed) == [5, 5]


def test_an_error_of_the_inner_stream_is_passed_on() -> None:
    stream, inner = play("abc")
    inner.script_steps.insert(2, Internal("broken"))
    with pytest.raises(Internal, match="broken"):
        list(stream)


def test_a_pattern_that_takes_too_long_ends_a_pushed_stream_with_an_error() -> None:
    backend = ScriptedBackend("chars", ["a" * 5000])
    tracker = StopTracker(make_finder(["(?R)"], "regex"), 1)
    inner = backend.generate(GenerationRequest((), max_tokens=8))
    events = [step for step in inner.script_steps if not isinstance(step, float)]
    inner.start = lambda sink: sink(events)  # type: ignore[method-assign]
    deliveries: list[object] = []
    LockstepStream(inner, [tracker], ignore).start(deliveries.append)
    assert isinstance(deliveries[0], BadRequest)
    assert inner.closed_at


def push_with_patterns(script: str, pattern: str, step_size: int = 3) -> tuple[list[object], int]:
    """Pushes a stream whose pattern another thread searches for: its deliveries, the turns of the loop."""
    deliveries: list[object] = []

    async def push() -> int:
        with ThreadPoolExecutor(1) as executor:
            backend = ScriptedBackend("chars", list(script))
            inner = backend.generate(GenerationRequest((), max_tokens=len(script)))
            events = [step for step in inner.script_steps if not isinstance(step, float)]
            steps = [events[i : i + step_size] for i in range(0, len(events), step_size)]
            inner.start = lambda sink: [sink(step) for step in steps]  # type: ignore[method-assign]
            tracker = StopTracker(make_finder([pattern], "regex"), 1)
            num_turns = 0
            LockstepStream(inner, [tracker], ignore, executor).start(deliveries.append)
            while not is_over(deliveries):
                await asyncio.sleep(0.001)
                num_turns += 1
            assert inner.closed_at
        return num_turns

    return deliveries, asyncio.run(push())


def is_over(deliveries: list[object]) -> bool:
    return any(
        isinstance(each, Exception) or (each and isinstance(each[-1], Finished)) for each in deliveries
    )  # type: ignore[index]


@pytest.mark.parametrize("step_size", [1, 2, 5, 100])
def test_a_pattern_that_another_thread_searches_for_stops_the_answer_at_the_same_token(
    step_size: int,
) -> None:
    deliveries, _ = push_with_patterns("abcd.efgh", r"[.!?](?=e)", step_size)
    events: list[Event] = [event for each in deliveries for event in each]  # type: ignore[attr-defined]
    assert texts(events, 1) == ["abcd.e"]
    assert ends(events) == [6]


def test_a_slow_pattern_ends_its_stream_with_an_error_and_leaves_the_event_loop_free() -> None:
    def count_turns() -> int:
        deliveries, num_turns = push_with_patterns("ab" * 2000, "((a|ab)(b|ba)?)+c", step_size=10_000)
        assert isinstance(deliveries[-1], BadRequest)
        return num_turns

    assert any(count_turns() > 5 for _ in range(5))  # other programs may hold up some of them


def test_an_empty_stream_has_an_end_for_each_answer() -> None:
    assert list(EmptyStream(2)) == [Finished(0, "length"), Finished(1, "length")]
    pushed: list[Event] = []
    EmptyStream(2).start(pushed.extend)
    assert [event.index for event in pushed] == [0, 1]
