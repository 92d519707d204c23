"""The end of repeated work is told from the CPU time of the last run, however fast the machine is.

The clock is simulated: a run uses CPU time in phases, as the machine's speed lets it.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from inference.process.repeated_work import RepeatedWork, WorkRun
from tests.retry_after import share_close

POLL_S = 0.2


class Phase(NamedTuple):
    """The CPU time that a phase of the work takes, on so many cores."""

    cpu_s: float
    cores: float


IMPORTS, DISK, PACKING = Phase(4.0, 1.0), Phase(0.5, 0.25), Phase(8.0, 2.0)


def simulate(
    repeated: RepeatedWork, phases: Sequence[Phase], speed_at: Callable[[float], float]
) -> list[tuple[float, float]]:
    """Each poll's expected and actual remaining seconds of one run, which begins at 100 s."""
    now, cpu_s, estimates, run = 100.0, 0.0, [], WorkRun(repeated, 100.0)
    for phase in phases:
        phase_end_s = cpu_s + phase.cpu_s
        while cpu_s < phase_end_s:
            cpu_s += POLL_S * phase.cores * speed_at(now)
            now += POLL_S
            run.note(now, cpu_s)
            estimates.append((now, run.remaining_s(now)))
    run.complete(now)
    return [(seconds, now - at) for at, seconds in estimates]


def test_phases_on_more_or_fewer_cores_are_known_from_the_last_run() -> None:
    repeated, phases = RepeatedWork(10.0), (IMPORTS, DISK, PACKING)
    simulate(repeated, phases, lambda now: 1.0)
    assert repeated.total_s == pytest.approx(10.0, abs=3 * POLL_S)
    assert share_close(simulate(repeated, phases, lambda now: 1.0)) == 1.0


@pytest.mark.parametrize("speed", [0.5, 0.7, 1.5])
def test_a_machine_of_another_speed_shows_by_the_cpu_time(speed: float) -> None:
    repeated, phases = RepeatedWork(10.0), (IMPORTS, PACKING)
    simulate(repeated, phases, lambda now: 1.0)
    estimates = simulate(repeated, phases, lambda now: speed)
    assert share_close(estimates) > 0.85
    assert share_close(estimates[len(estimates) // 4 :]) > 0.97


def test_runs_that_vary_a_little_are_expected_like_their_example() -> None:
    draws, repeated, estimates = random.Random(0), RepeatedWork(10.0), []
    for _ in range(20):
        factor = draws.uniform(0.97, 1.03)
        phases = [Phase(factor * cpu_s, cores) for cpu_s, cores in (IMPORTS, DISK, PACKING)]
        estimates += simulate(repeated, phases, lambda now: 1.0)
    assert share_close(estimates[len(estimates) // 10 :]) > 0.9


def test_the_first_run_shows_how_slow_the_machine_is() -> None:
    estimates = simulate(RepeatedWork(12.0), [Phase(12.0, 1.0)], lambda now: 0.5)
    assert share_close(estimates[len(estimates) // 10 :]) > 0.9


def test_work_that_exceeds_its_example_does_so_by_as_much_again() -> None:
    repeated = RepeatedWork(10.0)
    simulate(repeated, [Phase(4.0, 1.0)], lambda now: 1.0)
    run = WorkRun(repeated, 100.0)
    run.note(108.0, 8.0)
    assert run.remaining_s(108.0) == pytest.approx(4.0, rel=0.1)


def test_a_run_that_waits_for_a_disk_gets_on_by_the_time() -> None:
    repeated = RepeatedWork(10.0)
    for _ in range(2):
        estimates = simulate(repeated, [Phase(0.2, 1.0), Phase(0.01, 0.001)], lambda now: 1.0)
    assert share_close(estimates) > 0.95
