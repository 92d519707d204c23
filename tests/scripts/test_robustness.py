"""The measurements under attack send what their figures name, and fail where a target is missed."""

import pytest

from scripts.robustness.bystanders import Waits, figures_of
from scripts.robustness.figures import JudgedFigure, exit_code, print_table
from scripts.robustness.gaps import figure_of
from scripts.robustness.goodput import mean_ratio
from scripts.robustness.hostile_inputs import INPUTS
from scripts.robustness.killed_replicas import StreamedAnswer, Tally
from scripts.robustness.model_swaps import least_loads
from scripts.robustness.poisoned import KINDS
from scripts.robustness.retry_after import Poll, RefusedAttempt, judge, refused_attempts
from scripts.robustness.work_clock import WorkClock, WorkDone

ALONE = Waits([0.001], [0.001], [0.01, 0.02], {b"text"}, [100.0])


def verdicts(waits: Waits, memory_after_mb: float = 100.0) -> list[bool | None]:
    """The verdicts on health checks, gaps, texts and memory."""
    return [figure.is_met for figure in figures_of(waits, ALONE, 100.0, memory_after_mb)]


def test_the_inputs_and_kinds_are_those_that_the_documentation_counts() -> None:
    assert (len(INPUTS), len(KINDS)) == (40, 20)


def test_bystanders_that_wait_no_longer_than_alone_meet_the_targets() -> None:
    assert verdicts(ALONE) == [True] * 4


def test_long_waits_changed_texts_and_memory_are_missed() -> None:
    disturbed = Waits([0.2], [0.001], [0.07], {b"other"}, [300.0])
    assert verdicts(disturbed, 120.0) == [False] * 4


def test_a_machine_on_which_an_idle_server_is_slow_cannot_tell() -> None:
    assert verdicts(Waits([0.2], [0.15], [0.07], {b"text"}, [100.0])) == [None, None, True, True]


@pytest.mark.parametrize(
    ("kind", "statuses", "is_met"),
    [("chats", {200}, True), ("chats", {400}, False), ("body: ASCII", {400}, True), ("chats", {0}, False)],
)
def test_a_gap_counts_while_requests_are_answered_as_they_should_be(
    kind: str, statuses: set[int], is_met: bool
) -> None:
    assert figure_of(kind, ALONE, ALONE, statuses).is_met == is_met


def test_a_missed_figure_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    figures = [JudgedFigure("a", "1", "2", True), JudgedFigure("b", "1", "2", None)]
    assert exit_code(figures) == 0
    assert exit_code([*figures, JudgedFigure("c", "3", "2", False)]) == 1
    print_table("Title", figures)
    assert capsys.readouterr().out.splitlines()[-1] == "| b | 1 | 2 | machine too busy to tell |"


def test_a_refusal_lasts_until_the_next_request_is_accepted() -> None:
    polls = [Poll(1.0, 2.0), Poll(2.0, 9.0), Poll(3.0, None), Poll(6.0, None), Poll(8.0, 1.0)]
    refusals = refused_attempts(polls, [3.5, 0.5], WorkClock())
    assert refusals == [RefusedAttempt(2.0, 2.0, None, True), RefusedAttempt(9.0, 1.0, None, False)]
    assert [refusal.is_close for refusal in refusals] == [True, False]


def test_a_wait_is_also_judged_at_the_speed_that_the_engine_had() -> None:
    readings = [WorkDone(float(at), 10.0 * min(at, 6) + 5.0 * max(0, at - 6)) for at in range(20)]
    (refusal,) = refused_attempts([Poll(6.0, 5.0), Poll(16.0, None)], [], WorkClock(readings))
    assert (refusal.actual_s, refusal.engine_s) == (10.0, pytest.approx(5.0))
    figure = judge("a", [refusal] * 10)
    assert not figure.is_met and "error 5.0 s, p90 5.0 s, mean -5.0 s; 0% within, 100% at" in figure.value


def test_a_mean_of_ratios_within_its_error_does_not_tell() -> None:
    ratio = mean_ratio([0.98, 1.0, 1.02, 1.0])
    assert (ratio.mean, ratio.error) == (pytest.approx(1.0, abs=1e-3), pytest.approx(0.0082, abs=1e-4))
    assert (ratio.reaches(0.97), ratio.reaches(1.01), ratio.reaches(1.03)) == (True, None, False)
    noisy = mean_ratio([0.5, 2.0, 1.0, 1.0])
    assert noisy.mean == pytest.approx(1.0) and noisy.reaches(0.97) is None


def test_retry_after_far_from_the_actual_wait_is_missed() -> None:
    close, far = RefusedAttempt(10.0, 12.0), RefusedAttempt(10.0, 15.0)
    assert judge("a", [close] * 10).is_met and not judge("a", [close] * 8 + [far] * 2).is_met
    assert judge("a", [close]).is_met is None
    assert judge("a", [RefusedAttempt(60.0, 200.0)] * 10).is_met, "60 s are the most that a client is told"


@pytest.mark.parametrize(
    ("token_ids", "num_wrong"), [([1, 2, 3], 0), ([1, 2], 1), ([1, 2, 2, 3], 2), ([], 3), ([1, 9, 3], 2)]
)
def test_tokens_that_are_lost_doubled_or_others_are_counted(token_ids: list[int], num_wrong: int) -> None:
    tally = Tally()
    tally.add(StreamedAnswer("abc", token_ids, "stop"), StreamedAnswer("abc", [1, 2, 3], "stop"))
    assert tally.num_wrong == num_wrong and len(tally.differing) == bool(num_wrong)


def test_an_answer_that_breaks_off_differs() -> None:
    streamed, tally = StreamedAnswer(), Tally()
    for line in (
        b'data: {"choices": [{"text": "a", "token_ids": [1], "finish_reason": null}]}',
        b"",
    ):
        streamed.add(line)
    assert (streamed.text, streamed.token_ids) == ("a", [1])
    tally.add(streamed, StreamedAnswer("a", [1], "stop"))
    assert tally.differing == [streamed]


@pytest.mark.parametrize(("names", "num_loads"), [("aab", 2), ("abcb", 3), ("abcabc", 4), ("aaaa", 1)])
def test_the_oracle_unloads_the_model_that_is_needed_last(names: str, num_loads: int) -> None:
    assert least_loads(names, 2) == num_loads
