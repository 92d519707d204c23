"""The second stage of a job: its trainer starts, is followed, and ends with a model or an error."""

import logging
import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference.errors import ServerError
from inference.finding import format_each
from inference.process.child_program import KILLED, TERMINATED, describe_exit
from inference.process.full_disk import is_disk_full, names_full_disk
from inference.process.memory.memory_shortage import names_memory_shortage
from tuning.job_files import PROGRESS_FILE
from tuning.jobs.process import ChildProcess
from tuning.jobs.progress import figure, read_all_lines, record_new_lines
from tuning.jobs.result_file import metrics_csv
from tuning.jobs.run import JobRun
from tuning.jobs.validation import last_line, plan_again
from tuning.jobs.workspace import Workspace
from tuning.store.jobs import RunState, change_job, find_job, read_run, write_run
from tuning.store.schema import CHECKPOINTS
from tuning.types import NUM_CHECKPOINTS, Checkpoint, Job, JobError

LOG_EVERY_S = 10.0

log = logging.getLogger(__name__)


def start_training(workspace: Workspace, job: Job) -> JobRun | None:
    """Start the trainer; with a saved state in its folder, it goes on from there.

    None: the job has ended, or its files are validated again.
    """
    folder = workspace.job_folder(job)
    follow_training(workspace, job.id, folder)  # what a killed server has not read
    outcome = workspace.database.run(read_run, job.id).outcome
    if outcome and outcome["type"] == "finished":  # the server ended before it had published the result
        publish_result(workspace, job.id, folder, Path(outcome["folder"]))
        return None
    if plan_again(workspace, job):
        return None
    if error := memory_shortage(workspace, job):
        fail_job(workspace, job.id, error)
        return None
    complete_last_line(folder / PROGRESS_FILE)
    programs, threads = workspace.programs, workspace.base.threads
    process = ChildProcess(programs.train, folder, threads=threads, nice=programs.nice)
    try:
        workspace.database.run(begin_run, job.id)
    except BaseException:
        process.kill()
        raise
    log.info("job=%s status=running pid=%d", job.id, process.pid)
    return JobRun(job.id, "training", folder, process)


def memory_shortage(workspace: Workspace, job: Job) -> JobError | None:
    """Why the job does not fit now; when its files were validated, it did. None: it fits."""
    need, have = sum(job.memory_plan.values()), workspace.free_bytes()
    if need <= have:
        return None
    need_text, have_text = (format_each(size, workspace.base.num_processes) for size in (need, have))
    message = f"the training needs {need_text} of memory; beside serving there is {have_text} now"
    return JobError("insufficient_memory", f"{message}: free memory, and create the job again")


def complete_last_line(progress: Path) -> None:
    """End the line that a killed trainer has left unfinished."""
    if not progress.exists() or not progress.stat().st_size:
        return
    with progress.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def begin_run(connection: sqlite3.Connection, job_id: str) -> None:
    job, run = find_job(connection, job_id), read_run(connection, job_id)
    write_run(connection, job_id, RunState(run.num_bytes, outcome=None))
    resumes = job.started is not None
    message = "Fine-tuning job resumed from its last saved state" if resumes else "Fine-tuning job started"
    change_job(connection, job_id, message, status="running", started=job.started or int(time.time()))


def follow_training(workspace: Workspace, job_id: str, folder: Path) -> None:
    """Record what the trainer has written, and serve the last of its checkpoints. Their files are its own."""
    new_checkpoints = workspace.database.run(record_new_lines, job_id, folder)
    if not new_checkpoints:
        return
    old_checkpoints = workspace.database.run(delete_old_checkpoints, job_id)
    for checkpoint in old_checkpoints:
        workspace.models.unload(checkpoint.model)
    for checkpoint in new_checkpoints:
        if checkpoint not in old_checkpoints:
            serve_checkpoint(workspace, checkpoint)


def log_progress(workspace: Workspace, run: JobRun) -> None:
    """Log the last step, the rate and the time left, every LOG_EVERY_S."""
    if time.monotonic() < run.next_log:
        return
    run.next_log = time.monotonic() + LOG_EVERY_S
    progress = workspace.database.run(find_job, run.job_id).progress
    if progress.step:
        figures = {
            "loss": progress.train_loss,
            "tokens_per_s": progress.tokens_per_second,
            "eta_s": progress.eta_s,
        }
        text = " ".join(f"{name}={figure(value)}" for name, value in figures.items())
        log.info("job=%s step=%d/%d %s", run.job_id, progress.step, progress.total_steps, text)


def serve_checkpoint(workspace: Workspace, checkpoint: Checkpoint) -> None:
    try:
        job = workspace.database.run(find_job, checkpoint.job_id)
        workspace.models.serve(workspace.models.of_job(job, checkpoint.model, Path(checkpoint.folder)))
    except (ServerError, OSError) as error:
        log.warning("job=%s model=%s cannot be served: %s", checkpoint.job_id, checkpoint.model, error)


def delete_old_checkpoints(connection: sqlite3.Connection, job_id: str) -> list[Checkpoint]:
    finetuning_type = find_job(connection, job_id).hyperparameters.get("finetuning_type", "lora")
    old = CHECKPOINTS.all(connection, job_id)[: -NUM_CHECKPOINTS[finetuning_type]]
    for checkpoint in old:
        CHECKPOINTS.delete(connection, checkpoint.id)
    return old


def end_training(workspace: Workspace, run: JobRun, exit_code: int) -> None:
    """Decide what the end of the trainer means for its job."""
    outcome: Mapping[str, Any] = workspace.database.run(read_run, run.job_id).outcome or {}
    kind = outcome.get("type")
    if kind == "finished" and exit_code == 0:
        publish_result(workspace, run.job_id, run.folder, Path(outcome["folder"]))
    elif run.stop_reason == "shutdown":
        return  # the next start queues the job again
    elif run.stop_reason == "pause":
        workspace.change_job(run.job_id, "Fine-tuning job paused", status="paused")
    elif kind == "failed":
        error = JobError(code=outcome["code"], message=outcome["message"], param=outcome.get("param") or None)
        fail_job(workspace, run.job_id, error)
    elif exit_code == TERMINATED or (kind == "paused" and exit_code == 0):
        message = "The trainer was told to end: the job is queued again"
        workspace.change_job(run.job_id, message, "warn", status="queued")
    else:
        fail_job(workspace, run.job_id, death_of(run, exit_code))


def death_of(run: JobRun, exit_code: int) -> JobError:
    reason, last_words = describe_exit(exit_code), run.process.last_words()
    log.error("job=%s trainer: %s\n%s", run.job_id, reason, last_words)
    if exit_code == KILLED or names_memory_shortage(last_line(last_words)):
        fix = "if memory was short, use a smaller batch_size or max_length, or activation_checkpointing"
        return JobError(code="out_of_memory", message=f"the trainer died: {reason}: {fix}")
    code = "insufficient_disk" if names_full_disk(last_line(last_words)) else "server_error"
    return JobError(code=code, message=f"the trainer died: {reason}: {last_line(last_words)}")


def fail_job(workspace: Workspace, job_id: str, error: JobError) -> None:
    workspace.change_job(job_id, error.message, "error", status="failed", error=error)
    log.warning("job=%s status=failed code=%s: %s", job_id, error.code, error.message)


def publish_result(workspace: Workspace, job_id: str, folder: Path, result: Path) -> None:
    """Serve the result under its name, and end the job. It fails if the result cannot be served."""
    job = workspace.database.run(find_job, job_id)
    try:
        workspace.models.publish(workspace.models.of_job(job, job.model, result))
    except (ServerError, OSError) as error:
        if is_disk_full(error):  # the queue tries it again
            raise
        message = f"the trained model cannot be served: {error}"
        fail_job(workspace, job_id, JobError(code="invalid_adapter", message=message))
        return
    lines = read_all_lines(folder / PROGRESS_FILE)
    file = workspace.files.add_results(metrics_csv(lines), "step_metrics.csv")
    workspace.database.run(succeed, job_id, file.id)
    log.info("job=%s status=succeeded model=%s", job_id, job.model)


def succeed(connection: sqlite3.Connection, job_id: str, file_id: str) -> None:
    model = find_job(connection, job_id).model
    change_job(connection, job_id, f"New fine-tuned model created: {model}")
    change_job(
        connection,
        job_id,
        "The job has successfully completed",
        status="succeeded",
        fine_tuned_model=model,
        result_files=(file_id,),
    )
