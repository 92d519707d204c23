"""The jobs as the APIs use them: Jobs checks what a client orders, and the queue does it."""

import dataclasses
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from inference.errors import BadRequest, NotFound
from inference.models import Models
from tuning.job_files import DRAFT_FILE, write_value
from tuning.jobs.draft import Draft
from tuning.jobs.fine_tuned_models import TrainedModel, trained_models
from tuning.jobs.hyperparameters import check_hyperparameters
from tuning.jobs.names import model_name
from tuning.jobs.prepared_job import PreparedJob
from tuning.jobs.queue import JobQueue
from tuning.jobs.starting_point import (
    StartingPoint,
    check_nothing_is_over,
    find_starting_point,
    is_full,
    with_finetuning_type,
)
from tuning.jobs.workspace import Workspace
from tuning.served_weights import with_served_weights
from tuning.store.datasets import Datasets
from tuning.store.files import TRAINING
from tuning.store.jobs import find_job, insert_job, refuse_existing
from tuning.store.schema import CHECKPOINTS, EVENTS, JOBS
from tuning.store.table import ListPage
from tuning.types import FINISHED, METHODS, OWN_WEIGHTS, Checkpoint, Job, JobEvent, JobRequest

JOB_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
SUFFIX = re.compile(r"[A-Za-z0-9._-]{0,64}")
MAX_SEED = 2**31 - 1
NUM_SHOWN_ROWS = 5  # of a dry run
INITIAL_MODEL = "initial"  # folder in that of a job: the adapter or model whose weights it changes


class Jobs:
    """The jobs of a server. Every method may be called from any thread."""

    def __init__(self, workspace: Workspace, datasets: Datasets, queue: JobQueue, models: Models) -> None:
        self._workspace = workspace
        self._database = workspace.database
        self._datasets = datasets
        self._queue = queue
        self._models = models

    def create(self, request: JobRequest) -> Job:
        """Store a job, whose files are then validated. Raises BadRequest, and UnknownModel."""
        request, start = self._checked(request)
        job_id = request.job_id or f"ftjob-{secrets.token_hex(12)}"
        job = Job(
            id=job_id,
            request=request,
            model=model_name(self._workspace.base.names[0], request.suffix, job_id),
            status="validating_files",
            seed=make_seed(request),
            created=int(time.time()),
            folder=secrets.token_hex(12),
            base_model=start.full_model.name if start.full_model and not is_full(request) else "",
            hyperparameters=request.hyperparameters,
        )
        self._write_draft(job, start)
        self._database.run(insert_job, job)
        self._queue.wake()
        return job

    def dry_run(self, request: JobRequest) -> PreparedJob:
        """Validate what `create` would, with the first rows as they would be trained. Nothing is stored.

        Raises as `create`, and Overloaded.
        """
        request, start = self._checked(request)
        job_id = f"dry-run-{secrets.token_hex(8)}"
        folder = self._workspace.folder / job_id
        folder.mkdir(mode=0o700)
        try:
            draft = self._draft(request, start, job_id, make_seed(request), folder)
            write_value(folder / DRAFT_FILE, dataclasses.replace(draft, num_shown_rows=NUM_SHOWN_ROWS))
            return self._queue.dry_run(job_id, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def get(self, id: str) -> Job:
        """Raises UnknownJob."""
        return self._database.run(find_job, id)

    def list(
        self, *, limit: int, after: str | None = None, accept: Callable[[Job], bool] = lambda job: True
    ) -> ListPage[Job]:
        """Newest first. Raises BadRequest if there is no job `after`."""
        return self._database.run(
            lambda connection: JOBS.page(connection, limit=limit, after=after, accept=accept)
        )

    def cancel(self, id: str) -> Job:
        """End the job now. Its checkpoints stay. Raises UnknownJob, and BadRequest if it has ended."""
        return self._queue.cancel(id)

    def pause(self, id: str) -> Job:
        """The job is "paused" once its trainer has saved its state. Raises as `cancel`."""
        return self._queue.pause(id)

    def resume(self, id: str) -> Job:
        """Queue a paused job again. Raises as `cancel`, and BadRequest if it is not paused."""
        return self._queue.resume(id)

    def events(self, id: str, *, limit: int, after: str | None = None) -> ListPage[JobEvent]:
        """Newest first. Raises UnknownJob, and BadRequest if there is no event `after`."""
        self.get(id)
        return self._database.run(lambda connection: EVENTS.page(connection, id, limit=limit, after=after))

    def checkpoints(self, id: str, *, limit: int, after: str | None = None) -> ListPage[Checkpoint]:
        """Newest first. Raises UnknownJob, and BadRequest if there is no checkpoint `after`."""
        self.get(id)
        return self._database.run(
            lambda connection: CHECKPOINTS.page(connection, id, limit=limit, after=after)
        )

    def delete_model(self, model: str) -> bool:
        """Delete a result or checkpoint. Returns whether a job of this server has trained it.

        The files of a checkpoint stay until its job has ended: the trainer may need them. Checkpoints of
        adapters over a whole model go with it. Raises BadRequest if results of jobs are over it.
        """
        jobs, checkpoints = self._database.run(read_trained)
        models = trained_models(jobs, checkpoints, self._workspace.models)
        check_nothing_is_over(model, jobs, models)
        for over in [each.name for each in models.values() if each.base_model == model]:
            self.delete_model(over)
        trained = models.get(model)
        if trained is not None:
            self._workspace.models.unload(model)
        for checkpoint in (each for each in checkpoints if each.model == model):
            self._database.run(CHECKPOINTS.delete, checkpoint.id)
            if self.get(checkpoint.job_id).status not in FINISHED:
                return True
        if trained is not None:
            shutil.rmtree(trained.folder, ignore_errors=True)
        return trained is not None

    def _checked(self, request: JobRequest) -> tuple[JobRequest, StartingPoint]:
        """The request with its finetuning_type, and what it goes on from. Raises BadRequest, UnknownModel."""
        if request.job_id and not JOB_ID.fullmatch(request.job_id):
            raise BadRequest("job_id", "must be 1 to 200 letters, digits and ._-", request.job_id)
        if not SUFFIX.fullmatch(request.suffix) or ".." in request.suffix:
            raise BadRequest("suffix", "must be up to 64 letters, digits and ._-, without ..", request.suffix)
        if request.method not in METHODS:
            raise BadRequest("method", f"must be one of {', '.join(METHODS)}", request.method)
        if request.seed is not None and not 0 <= request.seed <= MAX_SEED:
            raise BadRequest("seed", f"must be 0 to {MAX_SEED}", request.seed)
        models = trained_models(*self._database.run(read_trained), self._workspace.models)
        trained = self._trained_model(request.model, models)
        request = with_finetuning_type(request, trained)
        check_hyperparameters(request.hyperparameters, self._workspace.base.max_lora_rank)
        if is_full(request) and not self._workspace.models.serves_full_models:
            rule = "must be lora: this server serves no further models, as the result would be"
            raise BadRequest("finetuning_type", rule, "full")
        return request, find_starting_point(request, trained, models)

    def _trained_model(self, model: str, models: Mapping[str, TrainedModel]) -> TrainedModel | None:
        """The one of these models; None for the base model. Raises UnknownModel, BadRequest."""
        if not model or model in self._workspace.base.names:
            return None
        if model in models:
            return models[model]
        if self._models.resolve(model).adapter is None:
            return None
        raise BadRequest("model", "is an adapter that was not trained here: name the base model", model)

    def _write_draft(self, job: Job, start: StartingPoint) -> None:
        """Make the job's folder, with what its programs read."""
        self._database.run(refuse_existing, job.id)
        folder = self._workspace.job_folder(job)
        folder.mkdir(mode=0o700)
        try:
            write_value(folder / DRAFT_FILE, self._draft(job.request, start, job.id, job.seed, folder))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _draft(
        self, request: JobRequest, start: StartingPoint, job_id: str, seed: int, folder: Path
    ) -> Draft:
        """What can change or be deleted is copied to the folder. Raises BadRequest."""
        validation, initial = request.validation, folder / INITIAL_MODEL
        base = with_served_weights(self._workspace.base)
        changed = start.full_model if is_full(request) else start.adapter
        if changed:
            shutil.copytree(changed.folder, initial, copy_function=os.link)
        if start.full_model:  # one under an adapter stays: it cannot be deleted before the job has ended
            full_folder = initial if is_full(request) else start.full_model.folder
            base = dataclasses.replace(base, model_folder=str(full_folder), **OWN_WEIGHTS)
        return Draft(
            job_id=job_id,
            method=request.method,
            hyperparameters=request.hyperparameters,
            seed=seed,
            base=base,
            free_bytes=self._workspace.free_bytes(),
            initial_adapter=str(initial) if start.adapter else "",
            training_file=self._rows_file(request.training, "training_file", folder),
            validation_file=self._rows_file(validation, "validation_file", folder) if validation else "",
        )

    def _rows_file(self, id: str, field: str, folder: Path) -> str:
        """The path of a file's rows, or of a copy of a dataset's rows."""
        try:
            if id.startswith("file-"):
                file = self._workspace.files.get(id)
                if file.purpose != TRAINING:
                    raise BadRequest(field, f"must be a file with the purpose {TRAINING}", file.purpose)
                return str(self._workspace.files.content(id))
            copy = folder / f"{field}.jsonl"
            self._datasets.copy_rows(id, copy)
            return str(copy)
        except NotFound as error:
            raise BadRequest(field, f"does not exist: {error.message}") from None


def make_seed(request: JobRequest) -> int:
    return secrets.randbelow(MAX_SEED + 1) if request.seed is None else request.seed


def read_trained(connection: sqlite3.Connection) -> tuple[list[Job], list[Checkpoint]]:
    jobs = JOBS.all(connection)
    return jobs, [checkpoint for job in jobs for checkpoint in CHECKPOINTS.all(connection, job.id)]
