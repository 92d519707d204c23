"""The costs that steps are expected to have are those that they had."""

import random
from collections.abc import Iterable

import pytest

from inference.engine.scheduling.step_cost import StepCost

STEP_S, TOKEN_S, CONTEXT_TOKEN_S = 4e-3, 6e-5, 4e-7  # of the demo model on two cores


def seconds(num_tokens: int, num_context_tokens: int) -> float:
    return STEP_S + num_tokens * TOKEN_S + num_context_tokens * CONTEXT_TOKEN_S


def record_all(step_cost: StepCost, num_tokens: int, contexts: Iterable[int], speed: float = 1.0) -> None:
    for num_context_tokens in contexts:
        cpu_s = seconds(num_tokens, num_context_tokens)
        step_cost.record(num_tokens, num_context_tokens, cpu_s / speed, cpu_s)


def test_before_the_first_step_nothing_is_known() -> None:
    assert StepCost().step_s() == StepCost().step_s(1000) == 0.0


def test_steps_with_other_contexts_are_expected_to_take_as_long_as_they_do() -> None:
    step_cost = StepCost()
    record_all(step_cost, 64, range(0, 60_000, 64))
    assert step_cost.step_s(120_000) == pytest.approx(seconds(64, 120_000), rel=0.01)
    assert step_cost.step_s(300) == pytest.approx(seconds(64, 300), rel=0.05)


def test_the_costs_of_tokens_are_not_taken_for_those_of_their_context() -> None:
    step_cost = StepCost()
    for _ in range(20):
        record_all(step_cost, 1, range(500))
        record_all(step_cost, 64, range(0, 6400, 64))
    assert step_cost.step_s(120_000) == pytest.approx(seconds(64, 120_000), rel=0.1)


def test_a_machine_that_becomes_slower_makes_all_steps_slower() -> None:
    step_cost = StepCost()
    record_all(step_cost, 64, range(0, 60_000, 64))
    record_all(step_cost, 64, range(60_000, 80_000, 64), speed=0.5)
    assert step_cost.step_s(120_000) == pytest.approx(2 * seconds(64, 120_000), rel=0.01)


def test_pauses_do_not_change_the_costs() -> None:
    step_cost, draws = StepCost(), random.Random(0)
    for num_context_tokens in range(0, 60_000, 64):
        pause_s = 0.5 if draws.random() < 0.01 else 0.0
        step_s = pause_s + seconds(64, num_context_tokens)
        step_cost.record(64, num_context_tokens, step_s, step_s)
    expected_ratio = seconds(64, 120_000) / seconds(64, 60_000)
    assert step_cost.step_s(120_000) / step_cost.step_s(60_000) == pytest.approx(expected_ratio, rel=0.1)


def test_a_context_without_cost_changes_nothing() -> None:
    step_cost = StepCost()
    for num_context_tokens in range(0, 60_000, 64):
        step_cost.record(64, num_context_tokens, 0.01, 0.01 - num_context_tokens * 1e-8)
    assert step_cost.step_s(120_000) == pytest.approx(step_cost.step_s(), rel=0.001)
