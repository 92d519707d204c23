"""When answers on other servers end is told from their progress. The clock and the servers are simulated."""

import random
from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from inference.events import Embedded, Finished, Token
from inference.remote.running_answers import RunningAnswer, RunningAnswers
from tests.fakes.stepped_clock import SteppedClock
from tests.retry_after import share_close

NUM_ROWS = 4
STEP_S, POLL_S = 0.01, 0.1
TOKEN = Token(0, -1, "a")


class SimulatedServer:
    """Computes a token of each of NUM_ROWS answers in a step; a request beyond them is refused.

    clock     of the answers
    speed_at  1: a step takes STEP_S
    """

    def __init__(self, clock: SteppedClock, speed_at: Callable[[float], float] = lambda now: 1.0) -> None:
        self.running_answers, self._clock, self._speed_at = RunningAnswers(), clock, speed_at
        self._running: dict[RunningAnswer, tuple[ExitStack, int]] = {}  # with the tokens that are left

    def run(self, seconds: float, draw_length: Callable[[], int]) -> list[tuple[float, float]]:
        """Keep all rows busy, while one more client asks; returns its expected and actual waits."""
        polls: list[tuple[float, float]] = []
        ends: list[float] = []
        end = self._clock.now + seconds
        while self._clock.now < end:
            while len(self._running) < NUM_ROWS:
                self._start(draw_length())
            if not polls or self._clock.now >= polls[-1][0] + POLL_S:
                polls.append((self._clock.now, self.running_answers.first_end_s()))
            self._clock.now += STEP_S / self._speed_at(self._clock.now)
            if self._step():
                ends.append(self._clock.now)
        return [
            (expected, ends[index] - at)
            for at, expected in polls
            if (index := bisect_right(ends, at)) < len(ends)
        ]

    def _start(self, length: int) -> None:
        with ExitStack() as stack:
            running = stack.enter_context(self.running_answers.count(length))
            self._running[running] = stack.pop_all(), length

    def _step(self) -> bool:
        """Returns whether an answer has ended."""
        for running, (stack, length) in list(self._running.items()):
            running.note([TOKEN])
            self._running[running] = stack, length - 1
            if length == 1:
                running.note([Finished(0, "length")])
                del self._running[running]
                stack.close()
        return len(self._running) < NUM_ROWS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    clock = SteppedClock()
    clock.now = 100.0
    for module in ("inference.remote.running_answers", "inference.drain_rate"):
        monkeypatch.setattr(f"{module}.time", clock)
    return clock


def test_limits_and_steps_tell_when_the_first_answer_ends(clock: SteppedClock) -> None:
    draws, server = random.Random(0), SimulatedServer(clock)
    assert share_close(server.run(60.0, lambda: draws.randint(500, 1500))) > 0.99


def test_a_server_that_becomes_slower_shows_within_seconds(clock: SteppedClock) -> None:
    draws, server = random.Random(0), SimulatedServer(clock, lambda now: 1.0 if now // 20 % 2 else 0.5)
    assert share_close(server.run(120.0, lambda: draws.randint(100, 900))) > 0.9


def test_without_a_limit_the_lengths_of_earlier_answers_count(clock: SteppedClock) -> None:
    running_answers = RunningAnswers()
    for length in (10, 20):
        with running_answers.count() as running:
            play(running, clock, length)
            running.note([Finished(0, "stop", num_tokens=2 * length)])
    with running_answers.count() as running:
        play(running, clock, 12)
        assert running_answers.first_end_s() == pytest.approx(0.8), "the one that was longer had 8 more"
    with running_answers.count(16) as limited:
        play(limited, clock, 1)
        assert running_answers.first_end_s() == pytest.approx(0.7), "an event has two tokens: 7 more"


def test_an_answer_of_which_nothing_is_known_takes_as_long_again(clock: SteppedClock) -> None:
    running_answers = RunningAnswers()
    with running_answers.count(100) as running:
        clock.now += 3.0
        assert running_answers.first_end_s() == pytest.approx(3.0)
        running.note([TOKEN])
        clock.now += 3.0
        assert running_answers.first_end_s() == pytest.approx(6.0)


def test_an_embedding_takes_as_long_as_the_last_ones(clock: SteppedClock) -> None:
    running_answers, embedded = RunningAnswers(), Embedded(0, "stop", embedding=b"")  # type: ignore[arg-type]
    with running_answers.count(0) as running:
        clock.now += 3.0
        running.note([embedded])
    with running_answers.count(0):
        clock.now += 1.0
        assert running_answers.first_end_s() == pytest.approx(2.0)
    assert not running_answers and not running_answers.lengths


def play(running: RunningAnswer, clock: SteppedClock, num_events: int) -> None:
    for _ in range(num_events):
        clock.now += 0.1
        running.note([TOKEN])
