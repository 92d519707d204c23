"""The load of a server: what an answer is expected to wait there."""

import pytest

from inference.remote.members.member_load import FIRST_STEP_S, MemberLoad, Prompt
from inference.remote.members.prefix_index import PrefixIndex

PROMPT = Prompt(4 * 256, (1, 2, 3, 4))


def test_a_prompt_waits_for_those_before_it_and_less_where_its_prefix_is_cached() -> None:
    busy, idle = MemberLoad(), MemberLoad()
    attempt = busy.start(Prompt(4 * 8000), now=0.0)
    assert busy.expected_wait(PROMPT) > idle.expected_wait(PROMPT)
    attempt.end()
    assert busy.expected_wait(PROMPT) == idle.expected_wait(PROMPT)
    busy.start(PROMPT, now=0.0).end()
    assert busy.expected_wait(PROMPT) < idle.expected_wait(PROMPT)


def test_one_long_step_weighs_the_same_with_many_answers_as_with_one() -> None:
    def step_s_after_long_step(num_answers: int) -> float:
        load = MemberLoad()
        attempts = [load.start(Prompt(), now=0.0) for _ in range(num_answers)]
        for now in (0.0, 1.0):
            for attempt in attempts:
                attempt.note_events((), now)
        return load._step_s

    assert step_s_after_long_step(1) > FIRST_STEP_S
    assert step_s_after_long_step(50) == pytest.approx(step_s_after_long_step(1), rel=0.02)


def test_a_server_is_tried_before_it_is_measured() -> None:
    measured, new = MemberLoad(), MemberLoad()
    attempt = measured.start(Prompt(4 * 900), now=0.0)
    attempt.note_events((), now=0.1)
    attempt.end()
    assert measured.speed == pytest.approx(9000)
    assert new.expected_wait(PROMPT) < measured.expected_wait(PROMPT)


def test_the_end_of_a_prompt_is_forgotten_before_its_beginning() -> None:
    prefixes = PrefixIndex(max_blocks=6)
    prefixes.add((1, 2, 3, 4))
    prefixes.add((5, 6, 7))
    assert prefixes.num_cached((1, 2, 3, 4)) == 3 and prefixes.num_cached((5, 6, 7)) == 3


def test_blocks_that_a_server_did_not_hold_are_forgotten() -> None:
    prefixes = PrefixIndex()
    prefixes.add((1, 2, 3, 4))
    prefixes.correct((1, 2, 3, 4), num_expected=4, cached_tokens=64)
    assert prefixes.num_cached((1, 2, 3, 4)) == 1
