"""The progress of a download as terminals, logs and programs get it."""

import io
import json

import pytest

from hub.download.progress import LINE_INTERVAL_S, REDRAW_INTERVAL_S, Progress, format_duration


class CallableClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> CallableClock:
    return CallableClock()


def fetching(progress: Progress, clock: CallableClock, *, seconds: int) -> None:
    """Shows ten megabytes a second of three gigabytes."""
    for second in range(seconds + 1):
        progress.show("fetching acme/large", second * 10_000_000, 3_000_000_000)
        clock.now += 1


def test_without_a_terminal_a_line_is_printed_every_few_seconds(clock: CallableClock) -> None:
    out = io.StringIO()
    fetching(Progress(out, clock=clock), clock, seconds=12)
    assert out.getvalue().splitlines() == [
        "fetching acme/large 0%, 0 bytes of 3.0 GB, 0 bytes/s",
        "fetching acme/large 2%, 50.0 MB of 3.0 GB, 10.0 MB/s, 4 min 55 s left",
        "fetching acme/large 3%, 100.0 MB of 3.0 GB, 10.0 MB/s, 4 min 50 s left",
    ]
    assert LINE_INTERVAL_S == 5


def test_on_a_terminal_one_line_is_redrawn(clock: CallableClock) -> None:
    out = io.StringIO()
    progress = Progress(out, width=lambda: 100, clock=clock)
    fetching(progress, clock, seconds=3)
    progress.end()
    output = out.getvalue()
    assert output.count("\r") == 4 and output.count("\n") == 1 and output.endswith("\n")
    assert "[........................] fetching acme/large 1%, 30.0 MB of 3.0 GB, 10.0 MB/s" in output


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_the_line_is_never_wider_than_the_terminal(clock: CallableClock, width: int) -> None:
    out = io.StringIO()
    fetching(Progress(out, width=lambda: width, clock=clock), clock, seconds=3)
    lines = [line.removesuffix("\x1b[K") for line in out.getvalue().split("\r")[1:]]
    assert max(map(len, lines)) < width


def test_programs_get_json(clock: CallableClock) -> None:
    out = io.StringIO()
    fetching(Progress(out, as_json=True, clock=clock), clock, seconds=5)
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["bytes"], last["total_bytes"], last["bytes_per_second"]) == (50_000_000, 3 * 10**9, 10**7)
    assert (last["eta_seconds"], last["level"], last["target"]) == (295, "INFO", "hub.download")


def test_an_obstacle_is_shown(clock: CallableClock) -> None:
    out = io.StringIO()
    Progress(out, clock=clock).show("fetching", 1, 2, "https://hub answers 503")
    assert out.getvalue().endswith("(https://hub answers 503)\n")


def test_the_rate_covers_the_last_seconds(clock: CallableClock) -> None:
    out = io.StringIO()
    progress = Progress(out, clock=clock)
    fetching(progress, clock, seconds=60)
    for _ in range(30):
        progress.show("fetching", 600_000_000, 3_000_000_000)
        clock.now += 1
    assert out.getvalue().splitlines()[-1].endswith(", 0 bytes/s")


def test_the_line_is_not_drawn_too_often(clock: CallableClock) -> None:
    out = io.StringIO()
    progress = Progress(out, width=lambda: 80, clock=clock)
    for _ in range(10):
        progress.show("fetching", 1, 2)
        clock.now += REDRAW_INTERVAL_S / 10
    assert out.getvalue().count("\r") == 1


@pytest.mark.parametrize(("seconds", "text"), [(48.4, "48 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_a_duration_is_written_in_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
