"""The progress of a job as JSON lines, which the server follows while the job runs.

Knows the file; the fields of each type of line are written where they come up.
"""

import json
import time
from pathlib import Path
from typing import Any

PROGRESS_FILE = "progress.jsonl"


class ProgressLog:
    """Appends to a job's progress file; each line is visible as soon as `write` returns."""

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / PROGRESS_FILE, "a", encoding="utf-8")  # noqa: SIM115  # lives as long as the job

    def write(self, type: str, **fields: Any) -> None:
        line = json.dumps({"type": type, "time": time.time(), **fields}, allow_nan=False)
        self._file.write(line + "\n")
        self._file.flush()

    def message(self, text: str, level: str = "info") -> None:
        self.write("message", level=level, text=text)
