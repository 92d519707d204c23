"""The waits that refused clients are told are those that follow from the progress of the answers."""

import random
from collections.abc import Sequence as SequenceOf
from types import SimpleNamespace

import pytest

from inference.engine.scheduling.scheduled_step import ScheduledStep
from inference.engine.scheduling.wait_estimator import MAX_WAITING, WaitEstimator
from inference.engine.sequence import Sequence
from tests.engine.running_answers import BUDGET, make_answer, make_sequence
from tests.retry_after import share_close


def make_step(num_tokens: int, running: SequenceOf[Sequence] = ()) -> ScheduledStep:
    return ScheduledStep([(each, 1) for each in running], num_tokens, 0, False, BUDGET, 0.0)


def estimator(running: list[Sequence], waiting: list[Sequence] | None = None) -> WaitEstimator:
    scheduler = SimpleNamespace(running=running, waiting=waiting or [], step_budget=BUDGET)
    estimator = WaitEstimator(scheduler)  # type: ignore[arg-type]
    estimator.record_step(make_step(2), 100.0, 0.1, 100.0)
    return estimator


def test_without_running_answers_or_steps_nothing_is_known() -> None:
    assert estimator([]).first_end_s() is None and estimator([]).drained_s(1) is None
    scheduler = SimpleNamespace(running=[make_answer(1, 10)], waiting=[], step_budget=BUDGET)
    assert WaitEstimator(scheduler).first_end_s() is None  # type: ignore[arg-type]


def test_the_first_end_is_that_of_the_answer_with_the_fewest_tokens_left() -> None:
    assert estimator([make_answer(10, 50), make_answer(70, 100)]).first_end_s() == pytest.approx(3.0)


def test_answers_are_expected_to_end_where_recent_ones_did() -> None:
    waits = estimator([make_answer(10, 1000)])
    for length in (5, 20, 40):
        waits.record_answer(make_answer(length, 1000), "stop")
    assert waits.first_end_s() == pytest.approx((1.0 + 3.0) / 2)
    for _ in range(32):
        waits.record_answer(make_answer(1000, 1000), "length")
    waits.record_step(make_step(2), 100.1, 0.1, 100.1)
    assert waits.first_end_s() == pytest.approx(99.0)


def test_the_first_end_is_computed_again_after_a_while() -> None:
    running = [make_answer(10, 50)]
    waits = estimator(running)
    assert waits.first_end_s() == pytest.approx(4.0)
    running[0].token_ids.append(5)
    waits.record_step(make_step(2), 100.04, 0.04, 100.04)
    assert waits.first_end_s() == pytest.approx(4.0)
    waits.record_step(make_step(2), 100.08, 0.04, 100.08)
    assert waits.first_end_s() == pytest.approx(39 * waits.step_s, rel=0.001)


def test_the_first_of_many_uncertain_ends_is_earlier_than_their_mean() -> None:
    waits = estimator([make_answer(0, 1000) for _ in range(4)])
    for length in (10, 20, 30, 40):
        waits.record_answer(make_answer(length, 1000), "stop")
    assert waits.first_end_s() == pytest.approx(1.0)


def test_a_prompt_that_is_not_computed_takes_steps_of_its_own() -> None:
    sequence = make_sequence(list(range(2 * BUDGET + 1)), max_tokens=10)
    assert estimator([sequence]).first_end_s() == pytest.approx(1.2)


def test_waiting_prompts_start_as_running_answers_end() -> None:
    running, waiting = (
        [make_answer(90, 100), make_answer(60, 100)],
        [make_answer(0, 20, 10), make_answer(0, 20, 10), make_answer(0, 20, 10)],
    )
    waits = estimator(running, waiting)
    starts = [
        1.0,
        3.0,
        4.0,
    ]  # the first takes the row of an answer until step 30, before the other ends at 40
    for number, start in enumerate(starts):
        assert waits.drained_s(10 * number + 1) == pytest.approx(start)
        assert waits.drained_s(10 * number + 10) == pytest.approx(start)


def test_prompts_that_wait_for_the_budget_start_as_fast_as_prompts_are_computed() -> None:
    waits = estimator([make_answer(1, 1000)], [make_answer(0, 10, 1000)])
    waits.record_step(make_step(BUDGET), 100.1, 0.1, 100.1)
    assert waits.drained_s(5 * BUDGET) == pytest.approx(0.5)


def test_the_time_of_a_step_follows_the_load_and_no_idle_time() -> None:
    waits, now = estimator([make_answer(0, 10)]), 200.0
    waits.record_idle()
    for interval in [0.1] * 50 + [0.4] * 50:
        now += interval
        waits.record_step(make_step(2), now, 0.09, now)
    assert waits.first_end_s() == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("pause_s", [0.1, 60.0])
def test_pauses_between_answers_are_no_time_of_a_step(pause_s: float) -> None:
    waits, now = estimator([make_answer(0, 10)]), 100.0
    for _ in range(50):
        waits.record_idle()
        now += pause_s + 0.1
        waits.record_step(make_step(1), now, 0.1, now)
    assert waits.first_end_s() == pytest.approx(1.0)


def test_scenarios_begin_with_another_length_for_each_answer() -> None:
    waits = estimator([make_answer(0, 1000), make_answer(25, 1000), make_answer(0, 35)])
    for length in (10, 20, 30, 40):
        waits.record_answer(make_answer(length, 1000), "stop")
    # tokens left: 10 20 30 40; 15 5 15 5; 30 35 10 20
    assert waits.first_end_s() == pytest.approx((10 + 5 + 10 + 5) / 4 / 10)


def test_a_request_for_several_answers_ends_with_its_longest() -> None:
    running = [make_answer(10, 20), make_answer(10, 50), make_answer(10, 40)]
    for sequence, submission in zip(running, (1, 1, 2), strict=True):
        sequence.submission = submission
    assert estimator(running).first_end_s() == pytest.approx(3.0)


def test_a_request_whose_other_prompts_wait_ends_with_the_last_of_them() -> None:
    running, waiting = [make_answer(10, 20), make_answer(10, 50)], [make_answer(0, 20), make_answer(0, 100)]
    for sequence, submission in zip((*running, *waiting), (1, 2, 1, 3), strict=True):
        sequence.submission = submission
    # The first prompt of request 1 ends after 10 steps; the second one has its row then, for 20 steps.
    assert estimator(running, waiting).first_end_s() == pytest.approx(3.0)


def test_a_request_with_more_waiting_prompts_than_are_looked_at_does_not_end_first() -> None:
    running = [make_answer(10, 20), make_answer(10, 50)]
    waiting = [make_answer(0, 20) for _ in range(MAX_WAITING + 1)]
    for sequence in (running[0], *waiting):
        sequence.submission = 1
    running[1].submission = 2
    assert estimator(running, waiting).first_end_s() == pytest.approx(4.0)
    assert estimator(running[:1], waiting).first_end_s() is None


def test_an_adapter_is_unused_after_the_last_of_its_answers() -> None:
    running = [
        make_answer(10, 20),
        make_answer(10, 40, adapter=1),
        make_answer(10, 60, adapter=1),
        make_answer(10, 90, adapter=2),
    ]
    assert estimator(running).first_end_s("adapter") == pytest.approx(5.0)
    assert estimator(running[:1]).first_end_s("adapter") is None


def test_steps_that_take_longer_as_answers_grow_are_expected_to_do_so() -> None:
    """Four requests with 16 answers each, of which each step takes another time."""
    draws, now, thread_s = random.Random(0), 100.0, 100.0
    running: list[Sequence] = []
    waits = estimator(running)
    estimates: list[tuple[float, float]] = []  # expected and actual waits
    for request in range(12):
        expected_ends: list[tuple[float, float]] = []  # the time, and the seconds expected from then on
        while len(running) < 64:
            running += [make_answer(0, limit) for limit in [draws.randint(300, 400)] * 16]
            for sequence in running[-16:]:
                sequence.submission = request * 64 + len(running)
        while all(len(sequence.token_ids) < sequence.max_len for sequence in running):
            context = sum(sequence.num_computed_tokens for sequence in running)
            cpu_s = (8e-3 + 2e-6 * context) * draws.lognormvariate(0.0, 0.2)
            seconds, thread_s = 2 * cpu_s, thread_s + cpu_s
            now += seconds
            waits.record_step(make_step(64, running), now, seconds, thread_s)
            for sequence in running:
                sequence.token_ids.append(5)
                sequence.num_computed_tokens += 1
            wait_s = waits.first_end_s()
            assert wait_s is not None
            expected_ends.append((now, wait_s))
        estimates += [(wait_s, now - at) for at, wait_s in expected_ends]
        running[:] = [sequence for sequence in running if len(sequence.token_ids) < sequence.max_len]
    assert share_close(estimates) >= 0.9
