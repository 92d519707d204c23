"""Prints the progress of a download: bytes, rate and ETA.

On a terminal one line is redrawn; elsewhere a line is printed every few seconds, as JSON if requested.
"""

import json
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO

from inference.finding import format_size

WINDOW_S = 15.0  # seconds over which the rate is measured
REDRAW_INTERVAL_S, LINE_INTERVAL_S = 0.2, 5.0
BAR_WIDTH = 24


@dataclass
class RateMeter:
    """Measures the rate over the last WINDOW_S seconds."""

    clock: Callable[[], float] = time.monotonic
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, done: int) -> float:
        """Record `done` bytes, and return the rate in bytes per second."""
        now = self.clock()
        self.samples.append((now, done))
        while self.samples[0][0] < now - WINDOW_S and len(self.samples) > 2:
            self.samples.popleft()
        (then, before), elapsed = self.samples[0], now - self.samples[0][0]
        return max(done - before, 0) / elapsed if elapsed > 0 and then < now else 0.0


@dataclass(frozen=True, slots=True)
class ProgressState:
    """The figures of one progress line; `last_error` is the current transient error, or empty."""

    label: str
    done_bytes: int
    total_bytes: int
    bytes_per_second: float
    last_error: str

    @property
    def eta_s(self) -> float | None:
        return (self.total_bytes - self.done_bytes) / self.bytes_per_second if self.bytes_per_second else None


class Progress:
    """`width` returns the columns of the terminal `out`; None if it is not a terminal."""

    def __init__(
        self,
        out: TextIO | None = None,
        *,
        as_json: bool = False,
        width: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.out = out or sys.stderr
        self.as_json, self.clock = as_json, clock
        self.width = width or (terminal_width if self.out.isatty() and not as_json else None)
        self.meter = RateMeter(clock)
        self.next_due = 0.0
        self.has_drawn_bar = False

    def show(
        self, label: str, done_bytes: int, total_bytes: int, last_error: str = "", *, now: bool = False
    ) -> None:
        """Print the progress if a line is due; `now`: in any case."""
        if self.clock() < self.next_due and not now:
            return
        self.next_due = self.clock() + (REDRAW_INTERVAL_S if self.width else LINE_INTERVAL_S)
        state = ProgressState(label, done_bytes, total_bytes, self.meter.rate(done_bytes), last_error)
        if self.width:
            self.write(f"\r{format_bar(state, self.width())}\x1b[K")
            self.has_drawn_bar = True
        else:
            self.write((format_json_line(state) if self.as_json else format_line(state)) + "\n")

    def end(self) -> None:
        """End the redrawn line, so that the next output starts on a new line."""
        if self.has_drawn_bar:
            self.write("\n")
        self.has_drawn_bar = False

    def write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


def format_line(state: ProgressState) -> str:
    share = state.done_bytes / state.total_bytes if state.total_bytes else 1
    done, total = format_size(state.done_bytes), format_size(state.total_bytes)
    line = f"{state.label} {share:.0%}, {done} of {total}, {format_size(state.bytes_per_second)}/s"
    remaining = f", {format_duration(state.eta_s)} left" if state.eta_s is not None else ""
    return f"{line}{remaining}" + (f" ({state.last_error})" if state.last_error else "")


def format_bar(state: ProgressState, width: int) -> str:
    """The progress line, with a bar if `width` has room for it; at most width - 1 characters."""
    line = format_line(state)
    num_filled = BAR_WIDTH * state.done_bytes // state.total_bytes if state.total_bytes else BAR_WIDTH
    bar = f"[{'#' * num_filled}{'.' * (BAR_WIDTH - num_filled)}] "
    return ((bar if len(bar) + len(line) < width else "") + line)[: width - 1]


def format_json_line(state: ProgressState) -> str:
    """The keys of a JSON log line, and the figures."""
    line = {
        "timestamp": datetime.now(UTC).isoformat(),
        "level": "INFO",
        "message": format_line(state),
        "target": "hub.download",
        "bytes": state.done_bytes,
        "total_bytes": state.total_bytes,
        "bytes_per_second": round(state.bytes_per_second),
        "eta_seconds": None if state.eta_s is None else round(state.eta_s),
    }
    return json.dumps(line, ensure_ascii=False)


def format_duration(seconds: float) -> str:
    """Such as 48 s, 3 min 20 s or 2 h 05 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
