"""A program that runs for a job: the validation of its files, its training, or a dry run."""

import math
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from inference.process.repeated_work import WorkRun
from tuning.jobs.prepared_job import PreparedJob
from tuning.jobs.process import ChildProcess

Stage = Literal["validation", "training", "dry_run"]
StopReason = Literal["", "pause", "shutdown"]

SAVE_TIMEOUT_S = 60.0  # a trainer that is to pause may take so long for its step and its state


@dataclass(slots=True, eq=False)
class JobRun:
    """A program of a job that runs.

    started_at   time.monotonic() of its start
    stop_reason  why the trainer was told to save its state and to end
    deadline     time.monotonic() at which it is killed
    next_log     time.monotonic() of the next log line of its progress
    prepared     the result of a dry run
    progress     of a dry run
    """

    job_id: str
    stage: Stage
    folder: Path
    process: ChildProcess
    started_at: float = field(default_factory=time.monotonic)
    stop_reason: StopReason = ""
    deadline: float = math.inf
    next_log: float = 0.0
    prepared: Future[PreparedJob] = field(default_factory=Future)
    progress: WorkRun | None = None

    def stop(self, reason: StopReason, timeout_s: float = SAVE_TIMEOUT_S) -> None:
        """Tell the trainer to save its state and to end."""
        self.stop_reason = reason
        self.deadline = time.monotonic() + timeout_s
        self.process.terminate()
