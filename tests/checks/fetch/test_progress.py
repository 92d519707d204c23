"""How far a download is, as people on a terminal, logs and programs are told it."""

import io
import json

import pytest

from checks.fetch.progress import LINE_S, REDRAW_S, Progress, duration


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fetching(progress: Progress, clock: Clock, *, seconds: int) -> None:
    """Ten megabytes a second of three gigabytes."""
    for second in range(seconds + 1):
        progress.show("fetching acme/large", second * 10_000_000, 3_000_000_000)
        clock.now += 1


def test_elsewhere_a_line_is_told_every_few_seconds(clock: Clock) -> None:
    out = io.StringIO()
    fetching(Progress(out, clock=clock), clock, seconds=12)
    assert out.getvalue().splitlines() == [
        "fetching acme/large 0%, 0 bytes of 3.0 GB, 0 bytes/s",
        "fetching acme/large 2%, 50.0 MB of 3.0 GB, 10.0 MB/s, 4 min 55 s left",
        "fetching acme/large 3%, 100.0 MB of 3.0 GB, 10.0 MB/s, 4 min 50 s left",
    ]
    assert LINE_S == 5


def test_on_a_terminal_one_line_is_drawn_anew(clock: Clock) -> None:
    out = io.StringIO()
    progress = Progress(out, width=lambda: 100, clock=clock)
    fetching(progress, clock, seconds=3)
    progress.end()
    drawn = out.getvalue()
    assert drawn.count("\r") == 4 and drawn.count("\n") == 1 and drawn.endswith("\n")
    assert "[........................] fetching acme/large 1%, 30.0 MB of 3.0 GB, 10.0 MB/s" in drawn


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_the_line_is_never_wider_than_the_terminal(clock: Clock, width: int) -> None:
    out = io.StringIO()
    fetching(Progress(out, width=lambda: width, clock=clock), clock, seconds=3)
    shown = [line.removesuffix("\x1b[K") for line in out.getvalue().split("\r")[1:]]
    assert max(map(len, shown)) < width


def test_programs_are_told_in_json(clock: Clock) -> None:
    out = io.StringIO()
    fetching(Progress(out, as_json=True, clock=clock), clock, seconds=5)
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["bytes"], last["total_bytes"], last["bytes_per_second"]) == (50_000_000, 3 * 10**9, 10**7)
    assert (last["eta_seconds"], last["level"], last["target"]) == (295, "INFO", "checks.fetch")


def test_what_stands_in_the_way_is_told(clock: Clock) -> None:
    out = io.StringIO()
    Progress(out, clock=clock).show("fetching", 1, 2, "https://hub answers 503")
    assert out.getvalue().endswith("(https://hub answers 503)\n")


def test_the_rate_is_that_of_the_last_seconds(clock: Clock) -> None:
    out = io.StringIO()
    progress = Progress(out, clock=clock)
    fetching(progress, clock, seconds=60)
    for _ in range(30):
        progress.show("fetching", 600_000_000, 3_000_000_000)
        clock.now += 1
    assert out.getvalue().splitlines()[-1].endswith(", 0 bytes/s")


def test_the_line_is_not_drawn_too_often(clock: Clock) -> None:
    out = io.StringIO()
    progress = Progress(out, width=lambda: 80, clock=clock)
    for _ in range(10):
        progress.show("fetching", 1, 2)
        clock.now += REDRAW_S / 10
    assert out.getvalue().count("\r") == 1


@pytest.mark.parametrize(("seconds", "told"), [(48.4, "48 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_a_duration_is_told_in_two_units(seconds: float, told: str) -> None:
    assert duration(seconds) == told
