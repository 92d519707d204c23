"""The queue of jobs: one thread starts their programs, follows them, and obeys cancel, pause and resume.

Other threads send it functions. What it must not forget is in the database: after the death of the server,
the jobs that were running are queued again.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from inference.database import StoreFailed
from inference.drain_rate import overloaded
from inference.errors import BadRequest, Unavailable, named_error
from inference.process.full_disk import is_disk_full
from inference.process.memory.memory_shortage import is_memory_shortage
from inference.process.repeated_work import RepeatedWork, WorkRun
from tuning.commands import SHUTTING_DOWN, Commands
from tuning.jobs.prepared_job import PreparedJob
from tuning.jobs.run import JobRun
from tuning.jobs.training import end_training, fail_job, follow_training, log_progress, start_training
from tuning.jobs.validation import end_validation, read_dry_run, start_preparing, start_validation
from tuning.jobs.workspace import Workspace
from tuning.store.jobs import find_job, jobs_with_status
from tuning.types import FINISHED, Job, JobError

RETRY_S = 5.0
SHUTDOWN_S = 10.0  # for trainers to save their state
MAX_DRY_RUNS = 2
FIRST_DRY_RUN_CPU_S = 7.0  # assumed before the first one has ended: most of it imports libraries
DRY_RUN_S = 540.0  # a dry run is killed then, before tune.py and most clients give up

log = logging.getLogger(__name__)


class JobQueue:
    """The queue of all jobs, and the thread that works on it.

    num_slots: jobs that train at the same time.
    """

    def __init__(self, workspace: Workspace, num_slots: int) -> None:
        self._workspace = workspace
        self._num_slots = num_slots
        self._runs: list[JobRun] = []
        self._dry_runs = RepeatedWork(FIRST_DRY_RUN_CPU_S)
        self._commands = Commands()
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for new jobs now."""
        self._commands.wake()

    def cancel(self, job_id: str) -> Job:
        """Kill the job's program; when this returns, it is gone. Raises UnknownJob, BadRequest."""
        return self._commands.call(self._cancel, job_id)

    def pause(self, job_id: str) -> Job:
        """Have the trainer save its state and end. Raises UnknownJob, BadRequest."""
        return self._commands.call(self._pause, job_id)

    def resume(self, job_id: str) -> Job:
        """Queue a paused job. Raises UnknownJob, BadRequest."""
        return self._commands.call(self._resume, job_id)

    def dry_run(self, job_id: str, folder: Path) -> PreparedJob:
        """Validate the files of the draft in `folder`, which is no job. Raises Overloaded."""
        return self._commands.call(self._start_dry_run, job_id, folder).result()

    def close(self) -> None:
        """Have the trainers save their states, and end them. Their jobs go on after the next start."""
        self._commands.close()
        self._thread.join()

    def _work(self) -> None:
        self._requeue_interrupted()
        while not self._commands.is_closed:
            try:
                self._advance()
            except Exception as error:
                if not is_temporary(error):
                    raise
                log.error("the jobs wait: %s", named_error(error))
                self._commands.run(RETRY_S)
            else:
                self._commands.run(self._workspace.programs.poll_s if self._runs else None)
        self._stop_runs()

    def _advance(self) -> None:
        for run in list(self._runs):
            self._guard(run.job_id, self._follow, run)
        for job in self._workspace.database.run(jobs_with_status, "queued"):
            if self._num_active("training") < self._num_slots:
                self._guard(job.id, self._start_training, job)
        for job in self._workspace.database.run(jobs_with_status, "validating_files"):
            if not self._num_active("validation"):
                self._guard(job.id, self._start_validation, job)

    def _guard(self, job_id: str, function: Callable[..., None], *args: Any) -> None:
        """Call a function. An error of ours fails the job, and no other one."""
        try:
            function(*args)
        except Exception as error:
            if is_temporary(error):
                raise
            log.exception("job=%s", job_id)
            for run in [run for run in self._runs if run.job_id == job_id]:
                run.process.kill()
                self._runs.remove(run)
                if run.stage == "dry_run":
                    run.prepared.set_exception(error)
                    return
            fail_job(self._workspace, job_id, JobError(code="server_error", message=str(error)))

    def _num_active(self, stage: str) -> int:
        return sum(run.stage == stage for run in self._runs)

    def _start_training(self, job: Job) -> None:
        if run := start_training(self._workspace, job):
            self._runs.append(run)

    def _start_validation(self, job: Job) -> None:
        self._runs.append(start_validation(self._workspace, job))

    def _start_dry_run(self, job_id: str, folder: Path) -> Future[PreparedJob]:
        running = [run.progress for run in self._runs if run.progress]
        if len(running) >= MAX_DRY_RUNS:
            now = time.monotonic()
            raise overloaded(None, min(progress.remaining_s(now) for progress in running))
        run = JobRun(job_id, "dry_run", folder, start_preparing(self._workspace, folder))
        run.progress = WorkRun(self._dry_runs, run.started_at)
        run.deadline = run.started_at + DRY_RUN_S
        self._runs.append(run)
        return run.prepared

    def _follow(self, run: JobRun) -> None:
        exit_code = run.process.exit_code()  # before the files are read: what it wrote last is then in them
        if run.progress:
            run.progress.note(time.monotonic(), run.process.cpu_s())
        if run.stage == "training":
            follow_training(self._workspace, run.job_id, run.folder)
            log_progress(self._workspace, run)
        if exit_code is None:
            if time.monotonic() > run.deadline:
                run.process.kill()
            return
        ENDINGS[run.stage](self._workspace, run, exit_code)
        self._runs.remove(run)
        if run.progress:
            run.progress.complete(time.monotonic())

    def _cancel(self, job_id: str) -> Job:
        self._require_unfinished(job_id)
        for run in self._runs_of(job_id):
            run.process.kill()
            if run.stage == "training":
                follow_training(self._workspace, run.job_id, run.folder)
            self._runs.remove(run)
        return self._workspace.change_job(job_id, "Fine-tuning job cancelled", status="cancelled")

    def _pause(self, job_id: str) -> Job:
        job = self._require_unfinished(job_id)
        if job.status == "paused":
            raise BadRequest("fine_tuning_job_id", "is paused already", job_id)
        for run in self._runs_of(job_id):
            if run.stage == "training":
                run.stop("pause")
                return job
            run.process.kill()
            self._runs.remove(run)
        return self._workspace.change_job(job_id, "Fine-tuning job paused", status="paused")

    def _resume(self, job_id: str) -> Job:
        job = self._require_unfinished(job_id)
        if job.status != "paused":
            raise BadRequest("fine_tuning_job_id", f"is not paused: its status is {job.status}", job_id)
        status = "queued" if job.num_examples else "validating_files"
        return self._workspace.change_job(job_id, "Fine-tuning job queued again", status=status)

    def _runs_of(self, job_id: str) -> list[JobRun]:
        return [run for run in self._runs if run.job_id == job_id and run.stage != "dry_run"]

    def _require_unfinished(self, job_id: str) -> Job:
        job = self._workspace.database.run(find_job, job_id)
        if job.status in FINISHED:
            raise BadRequest("fine_tuning_job_id", f"has ended: its status is {job.status}", job_id)
        return job

    def _requeue_interrupted(self) -> None:
        message = "The server was restarted: the job goes on from its last saved state"
        for job in self._workspace.database.run(jobs_with_status, "running"):
            self._workspace.change_job(job.id, message, "warn", status="queued")

    def _stop_runs(self) -> None:
        self._commands.run()
        for run in self._runs:
            run.stop("shutdown", SHUTDOWN_S)
            if run.stage == "dry_run":
                run.prepared.set_exception(Unavailable(SHUTTING_DOWN))
        for run in self._runs:
            if not run.process.wait(max(0.0, run.deadline - time.monotonic())):
                run.process.kill()


def is_temporary(error: Exception) -> bool:
    """Whether the next turn may do better: the disk is full, for example, or memory is short."""
    return isinstance(error, StoreFailed) or is_memory_shortage(error) or is_disk_full(error)


ENDINGS: dict[str, Callable[[Workspace, JobRun, int], None]] = {
    "validation": lambda workspace, run, exit_code: end_validation(workspace, run),
    "training": end_training,
    "dry_run": lambda workspace, run, exit_code: run.prepared.set_result(read_dry_run(run)),
}
