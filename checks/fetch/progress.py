"""How far a download is: bytes, rate, and when it will be done. On a terminal one line that is drawn anew;
elsewhere a line every few seconds, as JSON where programs read it. Knows nothing of downloads.
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

from checks.finding import size

WINDOW_S = 15.0  # that the rate is taken over
REDRAW_S, LINE_S = 0.2, 5.0
BAR = 24


@dataclass
class Meter:
    """The rate over the last seconds."""

    clock: Callable[[], float] = time.monotonic
    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, done: int) -> float:
        """Bytes per second."""
        now = self.clock()
        self.seen.append((now, done))
        while self.seen[0][0] < now - WINDOW_S and len(self.seen) > 2:
            self.seen.popleft()
        (then, before), elapsed = self.seen[0], now - self.seen[0][0]
        return max(done - before, 0) / elapsed if elapsed > 0 and then < now else 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """What is told; `rate` is bytes per second, `trouble` the last fault that is not over."""

    what: str
    done: int
    total: int
    rate: float
    trouble: str

    @property
    def eta_s(self) -> float | None:
        return (self.total - self.done) / self.rate if self.rate else None


class Progress:
    """`width`: of the terminal that `out` is; None where it is none."""

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
        self.width = width or (columns if self.out.isatty() and not as_json else None)
        self.meter = Meter(clock)
        self.due = 0.0
        self.drawn = False

    def show(self, what: str, done: int, total: int, trouble: str = "", *, now: bool = False) -> None:
        """Say so where it is time to; `now`: it is."""
        if self.clock() < self.due and not now:
            return
        self.due = self.clock() + (REDRAW_S if self.width else LINE_S)
        moment = Moment(what, done, total, self.meter.rate(done), trouble)
        if self.width:
            self.write(f"\r{drawn(moment, self.width())}\x1b[K")
            self.drawn = True
        else:
            self.write((json_line(moment) if self.as_json else told(moment)) + "\n")

    def end(self) -> None:
        """What is printed next starts on a line of its own."""
        if self.drawn:
            self.write("\n")
        self.drawn = False

    def write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def columns() -> int:
    return shutil.get_terminal_size().columns


def told(moment: Moment) -> str:
    share = moment.done / moment.total if moment.total else 1
    line = f"{moment.what} {share:.0%}, {size(moment.done)} of {size(moment.total)}, {size(moment.rate)}/s"
    left = f", {duration(moment.eta_s)} left" if moment.eta_s is not None else ""
    return f"{line}{left}" + (f" ({moment.trouble})" if moment.trouble else "")


def drawn(moment: Moment, width: int) -> str:
    """As told, with a bar where there is room for it; never wider than the terminal."""
    line = told(moment)
    full = BAR * moment.done // moment.total if moment.total else BAR
    bar = f"[{'#' * full}{'.' * (BAR - full)}] "
    return ((bar if len(bar) + len(line) < width else "") + line)[: width - 1]


def json_line(moment: Moment) -> str:
    """The keys of every line of the log, and the figures."""
    line = {
        "timestamp": datetime.now(UTC).isoformat(),
        "level": "INFO",
        "message": told(moment),
        "target": "checks.fetch",
        "bytes": moment.done,
        "total_bytes": moment.total,
        "bytes_per_second": round(moment.rate),
        "eta_seconds": None if moment.eta_s is None else round(moment.eta_s),
    }
    return json.dumps(line, ensure_ascii=False)


def duration(seconds: float) -> str:
    """48 s, 3 min 20 s, 2 h 05 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
