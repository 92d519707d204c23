"""The progress of a job in a terminal: one line that is written again, or a line now and then in a file."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

WIDTH = 30  # of the bar, in characters
LINES_OF_FILE = 10  # of a whole job, where no terminal reads them


class ProgressBar:
    """Shows the steps of one job.

    now: returns the Unix time.
    """

    def __init__(self, output: TextIO, now: Callable[[], float] = time.time) -> None:
        self._output = output
        self._now = now
        self._is_terminal = output.isatty()
        self._shown_line = ""
        self._has_steps = False
        self._last_tenth = -1

    def show_wait(self, state: str, elapsed_s: float) -> None:
        """Before the first step: what the job does, and for how long it has been shown. Terminals only."""
        if self._is_terminal and not self._has_steps:
            self._replace_line(f"{state}  {format_duration(elapsed_s)}")

    def update(self, figures: Mapping[str, Any], estimated_finish: int | None) -> None:
        """Show a step. figures: of the event; estimated_finish: Unix time, None: unknown."""
        step, total = figures.get("step"), figures.get("total_steps")
        if not step or not total or figures.get("learning_rate") is None:  # an evaluation
            return
        line = progress_line(figures, None if estimated_finish is None else estimated_finish - self._now())
        self._has_steps = True
        if self._is_terminal:
            self._replace_line(line)
        elif step * LINES_OF_FILE // total != self._last_tenth:
            self._last_tenth = step * LINES_OF_FILE // total
            self._output.write(line + "\n")
            self._output.flush()

    def print_message(self, message: str) -> None:
        """Write a line above the bar."""
        self._erase_line()
        self._output.write(f"{message}\n{self._shown_line}")
        self._output.flush()

    def end(self) -> None:
        """Leave the last state of the bar on its line, and nothing of a wait."""
        if self._has_steps and self._shown_line:
            self._output.write("\n")
        else:
            self._erase_line()
        self._output.flush()
        self._shown_line = ""

    def _replace_line(self, line: str) -> None:
        self._output.write("\r" + line.ljust(len(self._shown_line)))
        self._output.flush()
        self._shown_line = line

    def _erase_line(self) -> None:
        if self._shown_line:
            self._output.write("\r" + " " * len(self._shown_line) + "\r")


def progress_line(figures: Mapping[str, Any], eta_s: float | None) -> str:
    step, total = figures["step"], figures["total_steps"]
    filled = round(WIDTH * step / total)
    words = [
        f"[{'#' * filled}{'.' * (WIDTH - filled)}]",
        f"{100 * step // total:3} %",
        f"step {step}/{total}",
    ]
    if (loss := figures.get("train_loss")) is not None:
        words.append(f"loss {loss:.4f}")
    if rate := figures.get("tokens_per_second"):
        words.append(f"{rate:,.0f} tokens/s")
    if eta_s is not None and step < total:
        words.append(f"ETA {format_duration(max(0.0, eta_s))}")
    return "  ".join(words)


def format_duration(seconds: float) -> str:
    """0:42, or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
