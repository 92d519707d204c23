"""What the stages of a job share: the database, the folders, the programs and the served model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.database import Database
from tuning.jobs.fine_tuned_models import FineTunedModels
from tuning.store.files import Files
from tuning.store.jobs import change_job
from tuning.types import Job, Level, TrainingBase


@dataclass(frozen=True, slots=True)
class Programs:
    """Command lines, which the folder of the job follows.

    serve_runs  the trainer of all training runs; its socket and folder follow
    nice        how far they yield to the server
    poll_s      seconds from one look at the progress of running jobs to the next
    """

    prepare: tuple[str, ...]
    train: tuple[str, ...]
    serve_runs: tuple[str, ...] = ()
    nice: int = 10
    poll_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Workspace:
    """What each stage of a job gets.

    free_bytes: memory that each process of a trainer may take beside what the server keeps.
    """

    database: Database
    folder: Path
    base: TrainingBase
    files: Files
    models: FineTunedModels
    programs: Programs
    free_bytes: Callable[[], int]

    def job_folder(self, job: Job) -> Path:
        return self.folder / job.folder

    def change_job(self, job_id: str, message: str, level: Level = "info", **changes: Any) -> Job:
        """As tuning.store.jobs.change_job, in a transaction of its own."""
        return self.database.run(lambda connection: change_job(connection, job_id, message, level, **changes))
