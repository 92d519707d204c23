"""The first stage of a job: a program checks its files and chooses its hyperparameters."""

import logging
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

from inference.process.child_program import KILLED, TERMINATED, describe_exit
from tuning.job_files import DRAFT_FILE, PREPARED_FILE, SPEC_FILE, read_value, write_value
from tuning.jobs.draft import Draft
from tuning.jobs.hyperparameters import effective_values
from tuning.jobs.prepared_job import PreparedJob
from tuning.jobs.process import ChildProcess
from tuning.jobs.run import JobRun
from tuning.jobs.workspace import Workspace
from tuning.served_weights import is_served, with_served_weights
from tuning.store.jobs import add_event, change_job
from tuning.types import Job, JobError, JobSpec

PLANNED_AGAIN = (
    "The packed weights are not mapped as they were when the memory was planned: it is planned again"
)

log = logging.getLogger(__name__)


def start_validation(workspace: Workspace, job: Job) -> JobRun:
    folder = workspace.job_folder(job)
    return JobRun(job.id, "validation", folder, start_preparing(workspace, folder))


def plan_again(workspace: Workspace, job: Job) -> bool:
    """Have the job validated and its memory planned again, if the server no longer maps its packed weights.

    Also if the server maps them only now. Returns whether that is so.
    """
    folder = workspace.job_folder(job)
    spec, draft = read_value(folder / SPEC_FILE, JobSpec), read_value(folder / DRAFT_FILE, Draft)
    if spec.shares_weights == is_served(spec.weight_file):
        return False
    base = with_served_weights(draft.base)
    write_value(folder / DRAFT_FILE, replace(draft, base=base, free_bytes=workspace.free_bytes()))
    workspace.change_job(job.id, PLANNED_AGAIN, "warn", status="validating_files")
    return True


def start_preparing(workspace: Workspace, folder: Path) -> ChildProcess:
    (folder / PREPARED_FILE).unlink(missing_ok=True)
    return ChildProcess(workspace.programs.prepare, folder, threads=1, nice=workspace.programs.nice)


def end_validation(workspace: Workspace, run: JobRun) -> None:
    """Queue the job for its training, or fail it. One whose program was told to end is validated again."""
    prepared = read_prepared(run)
    if prepared.spec is None and run.process.exit_code() == TERMINATED:
        return
    if error := prepared.error:
        workspace.change_job(run.job_id, error.message, "error", status="failed", error=error)
        return
    write_value(run.folder / SPEC_FILE, prepared.spec)
    workspace.database.run(queue_job, run.job_id, prepared)


def read_prepared(run: JobRun) -> PreparedJob:
    """What the program has found out. Its death is an error with its last words."""
    path = run.folder / PREPARED_FILE
    if path.exists():
        return read_value(path, PreparedJob)
    reason = describe_exit(run.process.exit_code() or 0)
    log.error("job=%s validation: %s\n%s", run.job_id, reason, run.process.last_words())
    message = f"the validation of the files failed: {reason}: {last_line(run.process.last_words())}"
    return PreparedJob(error=JobError(code="server_error", message=message))


def read_dry_run(run: JobRun) -> PreparedJob:
    """As read_prepared. One that was killed at its deadline says so."""
    if run.process.exit_code() == KILLED and time.monotonic() >= run.deadline:
        limit_s = run.deadline - run.started_at
        message = (
            f"the dry run was ended after {limit_s:g} s: try the first rows of the file, "
            "or create the job, whose validation may take longer"
        )
        return PreparedJob(error=JobError(code="timeout", message=message, param="training_file"))
    return read_prepared(run)


def last_line(text: str) -> str:
    return text.rpartition("\n")[2].strip() or "it printed nothing"


def queue_job(connection: sqlite3.Connection, job_id: str, prepared: PreparedJob) -> None:
    assert prepared.spec is not None
    for message in prepared.messages:
        add_event(connection, job_id, message, "warn")
    change_job(
        connection,
        job_id,
        "Files validated, moving job to queued state",
        status="queued",
        hyperparameters=effective_values(prepared.spec.hyperparameters),
        num_examples=prepared.num_examples,
        memory_plan=prepared.memory_plan,
    )
