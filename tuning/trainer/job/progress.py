"""The progress of a job as JSON lines, which the server follows while the job runs.

Knows the file; the fields of each type of line are written where they come up.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuning.job_files import PROGRESS_FILE

METRICS = ("step", "evaluation")  # types of lines with figures of a step

CopyMetrics = Callable[[int, Mapping[str, Any]], None]


class ProgressLog:
    """Appends to a job's progress file; each line is visible as soon as `write` returns."""

    def __init__(self, folder: Path) -> None:
        self._copies: list[CopyMetrics] = []
        self._file = open(folder / PROGRESS_FILE, "a", encoding="utf-8")  # noqa: SIM115  # lives as long as the job

    def write(self, type: str, **fields: Any) -> None:
        line = json.dumps({"type": type, "time": time.time(), **fields}, allow_nan=False)
        self._file.write(line + "\n")
        self._file.flush()
        if type in METRICS:
            for copy in self._copies:
                copy(fields["step"], fields)

    def copy_metrics(self, copy: CopyMetrics) -> None:
        """Call the function with the step and the fields of every line with metrics, too."""
        self._copies.append(copy)

    def message(self, text: str, level: str = "info") -> None:
        self.write("message", level=level, text=text)
