"""The tuning service: files, datasets and jobs below one folder. Entry point: TuningService.

The APIs translate their requests into calls of it. Knows its parts, and what a killed server leaves behind.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inference.database import Database, Schema
from inference.models import Models
from inference.process.child_program import module_command
from settings.groups import TuningSettings
from tuning.data.hub_rows import FetchDataset
from tuning.jobs.fine_tuned_models import FineTunedModels, trained_models
from tuning.jobs.jobs import Jobs, read_trained
from tuning.jobs.model_host import ModelHost
from tuning.jobs.queue import JobQueue
from tuning.jobs.workspace import Programs, Workspace
from tuning.metrics import TuningCollector
from tuning.runs.service import TrainingRuns
from tuning.runs.store import PENDING_SAMPLES, RUN_TABLES
from tuning.runs.trainer_process import TrainerProcess
from tuning.store.datasets import Datasets
from tuning.store.files import Files
from tuning.store.jobs import job_that_needs
from tuning.store.schema import JOB_TABLES, JOBS
from tuning.types import TrainingBase

DATABASE_FILE = "tuning.db"
LATER_TABLES = {1: RUN_TABLES, 2: PENDING_SAMPLES.definition}  # by the version that lacks them
SCHEMA = Schema("the tuning store", 3, JOB_TABLES + "".join(LATER_TABLES.values()), LATER_TABLES)
OWN_PROGRAMS = Programs(
    prepare=module_command("tuning.jobs.prepare"),
    train=module_command("tuning.trainer.job.child"),
    serve_runs=module_command("tuning.trainer.server"),
)


class TuningService:
    """What the APIs call: the files, datasets, jobs and training runs below one folder.

    models         serves the base, and the adapters that are trained over it
    host           serves whole models; None: none can be trained
    free_bytes     memory that each process of a trainer may take beside what the server keeps
    fetch_dataset  fetches a dataset of the Hub; None: none can be named

    Raises sqlite3.Error and OSError; InUse if another server has the folder.
    """

    def __init__(
        self,
        folder: Path,
        models: Models,
        base: TrainingBase,
        settings: TuningSettings,
        *,
        free_bytes: Callable[[], int] = lambda: 1 << 62,
        fetch_dataset: FetchDataset | None = None,
        host: ModelHost | None = None,
        programs: Programs = OWN_PROGRAMS,
    ) -> None:
        self.folder = folder
        self._database = Database(folder / DATABASE_FILE, SCHEMA)
        if not self._database.is_exclusive:
            self._database.close()
            raise InUse(f"another server uses {folder}: give one of them another TUNING_DIR")
        self.files = Files(self._database, folder / "files", settings.max_file_bytes, job_that_needs)
        self.datasets = Datasets(self._database, folder / "datasets", self.files, fetch_dataset)
        results = FineTunedModels(folder / "models", base.names, models.own.backend.adapters(), host)
        workspace = Workspace(
            self._database, folder / "jobs", base, self.files, results, programs, free_bytes
        )
        self._remove_leftovers(workspace)
        jobs, checkpoints = self._database.run(read_trained)
        results.serve_all(trained_models(jobs, checkpoints, results).values())
        self._queue = JobQueue(workspace, settings.tuning_jobs)
        self.jobs = Jobs(workspace, self.datasets, self._queue, models)
        self.runs = TrainingRuns(
            folder / "runs",
            self._database,
            base,
            results,
            partial(TrainerProcess, programs.serve_runs, folder / "trainer", base, programs.nice),
            max_runs=settings.tinker_runs,
            free_bytes=free_bytes,
        )
        self.metrics = TuningCollector(partial(self._database.run, JOBS.all))

    def close(self) -> None:
        """Pause the running jobs: they go on after the next start."""
        self._queue.close()
        self.runs.close()
        self._database.close()

    def _remove_leftovers(self, workspace: Workspace) -> None:
        """Delete what a killed server had not finished: uploads, datasets, and folders without a job."""
        self.files.remove_leftovers()
        self.datasets.remove_leftovers()
        workspace.folder.mkdir(mode=0o700, exist_ok=True)
        known = {job.folder for job in self._database.run(JOBS.all)}
        for folder in workspace.folder.iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)


class InUse(Exception):
    """Another server uses the folder."""
