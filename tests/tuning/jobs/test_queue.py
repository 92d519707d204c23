"""The life of a job: with programs that are scripts, what its status and its events become."""

import csv
import os
import threading
import time
from typing import Any

import psutil
import pytest

from inference.errors import BadRequest, Overloaded
from inference.process.repeated_work import WorkRun
from settings.groups import TuningSettings
from tests.tuning.conftest import MakeService
from tests.tuning.held_programs import release
from tests.tuning.jobs.job_processes import processes_in, wait_for_step
from tests.tuning.scripted_service import (
    ROW,
    RecordingAdapters,
    create_job,
    messages,
    upload,
    wait_for_job,
    wait_until,
)
from tuning.jobs import queue
from tuning.jobs.names import model_name
from tuning.jobs.run import SAVE_TIMEOUT_S
from tuning.service import TuningService
from tuning.types import JobRequest


def trainer_pid(service: TuningService, job_id: str) -> int:
    """The pid of the job's running trainer."""
    return processes_in(service.folder / "jobs" / service.jobs.get(job_id).folder)[0].pid


def test_a_job_succeeds(service: TuningService, adapters: RecordingAdapters) -> None:
    job = create_job(service, suffix="mine")
    assert (job.status, job.fine_tuned_model) == ("validating_files", None)
    job = wait_for_job(service, job.id)
    model = f"ft:model:local:mine:{job.id.removeprefix('ftjob-')[:8]}"
    assert (job.status, job.fine_tuned_model, job.error) == ("succeeded", model, None)
    assert job.hyperparameters["batch_size"] == 1 and job.trained_tokens == 100
    assert job.progress.step == job.progress.total_steps == 10
    assert adapters.loaded.keys() == {model, f"{model}:ckpt-step-5", f"{model}:ckpt-step-10"}
    assert messages(service, job.id) == [
        f"Created fine-tuning job: {job.id}",
        "Validating training file",
        "2 rows are cut",
        "Files validated, moving job to queued state",
        "Fine-tuning job started",
        f"Checkpoint created at step 5: {model}:ckpt-step-5",
        f"Checkpoint created at step 10: {model}:ckpt-step-10",
        f"New fine-tuned model created: {model}",
        "The job has successfully completed",
    ]


def test_each_step_of_a_short_job_has_an_event_with_its_figures(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service).id)
    events = [e for e in service.jobs.events(job.id, limit=1000).values[::-1] if e.type == "metrics"]
    steps = [event for event in events if "train_mean_token_accuracy" in (event.data or {})]
    assert [event.data["step"] for event in steps] == list(range(1, 11))  # type: ignore[index]
    assert steps[3].message == "Step 4/10: training loss=0.25"
    assert [e.data["valid_loss"] for e in events if "valid_loss" in e.data] == [0.4, 0.2]  # type: ignore


def test_a_long_job_has_at_least_200_metrics_spread_evenly(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service, steps=1000).id)
    events = service.jobs.events(job.id, limit=10_000).values
    steps = [event.data["step"] for event in events if event.data and "learning_rate" in event.data]
    assert steps == list(range(1000, 0, -5))


def test_the_metrics_are_a_csv_file(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service).id)
    (file_id,) = job.result_files
    assert service.files.get(file_id).purpose == "fine-tune-results"
    rows = list(csv.DictReader(service.files.content(file_id).read_text().splitlines()))
    assert len(rows) == 10 and rows[4] == {
        "step": "5",
        "train_loss": "0.2",
        "train_accuracy": "0.5",
        "valid_loss": "0.4",
        "valid_mean_token_accuracy": "0.4",
    }


def test_the_last_three_checkpoints_answer(service: TuningService, adapters: RecordingAdapters) -> None:
    job = wait_for_job(service, create_job(service, steps=30).id)
    names = [f"{job.model}:ckpt-step-{step}" for step in (30, 25, 20)]
    assert [each.model for each in service.jobs.checkpoints(job.id, limit=10).values] == names
    assert adapters.loaded.keys() == {job.model, *names}


def test_a_checkpoint_answers_while_the_job_runs(service: TuningService, adapters: RecordingAdapters) -> None:
    job = create_job(service, {"hold_at": 5})
    wait_until(lambda: dict(adapters.loaded), lambda loaded: f"{job.model}:ckpt-step-5" in loaded)
    assert service.jobs.get(job.id).status == "running"
    service.jobs.cancel(job.id)


def test_an_invalid_file_fails_the_job_with_its_line(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service, training=upload(service, {"prepare": "invalid"})).id)
    assert job.status == "failed" and job.error
    assert (job.error.code, job.error.param) == ("invalid_training_file", "training_file")
    assert messages(service, job.id)[-1] == job.error.message == "Line 1: messages is required"


@pytest.mark.system("posix")
def test_the_death_of_the_validation_fails_the_job_with_its_last_words(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service, training=upload(service, {"prepare": "die"})).id)
    assert job.error and job.error.code == "server_error"
    assert "ended by SIGKILL: Traceback: a bug" in job.error.message


def test_the_exit_of_a_trainer_fails_the_job_with_its_last_words(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service, {"exit_at": 3}).id)
    assert job.error and job.error.code == "server_error"
    assert job.error.message == "the trainer died: it ended with exit code 3: RuntimeError: last words"
    assert job.finished and job.progress.step == 2


@pytest.mark.parametrize("last_words", ["MemoryError: ", "ImportError: x.so: failed to map segment from it"])
def test_a_trainer_without_memory_for_its_libraries_says_so(service: TuningService, last_words: str) -> None:
    job = wait_for_job(service, create_job(service, {"exit_at": 1, "last_words": last_words}).id)
    assert job.error and job.error.code == "out_of_memory"
    assert "exit code 3: if memory was short, use a smaller batch_size" in job.error.message


@pytest.mark.system("posix")
def test_a_killed_trainer_fails_the_job_and_its_checkpoints_stay(
    service: TuningService, adapters: RecordingAdapters
) -> None:
    job = wait_for_job(service, create_job(service, {"die_at": 8}).id)
    assert job.error and job.error.code == "out_of_memory" and "SIGKILL" in job.error.message
    assert adapters.loaded.keys() == {f"{job.model}:ckpt-step-5"}


def test_a_failure_of_the_training_has_its_own_code(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service, {"fail_at": 3}).id)
    assert job.error and (job.error.code, job.error.param) == ("non_finite_loss", None)


def test_a_result_that_cannot_be_served_fails_the_job(
    service: TuningService, adapters: RecordingAdapters
) -> None:
    adapters.refused.add(model_name("fake/model", "", "job"))
    job = wait_for_job(service, create_job(service, job_id="job").id)
    assert job.error and job.error.code == "invalid_adapter" and job.fine_tuned_model is None


def test_cancelling_kills_the_trainer_at_once(service: TuningService) -> None:
    job = create_job(service, {"hold_at": 1, "ignore_term": True})
    wait_for_step(service, job.id)
    pid, start = trainer_pid(service, job.id), time.monotonic()
    assert service.jobs.cancel(job.id).status == "cancelled"
    assert not psutil.pid_exists(pid) and time.monotonic() - start < SAVE_TIMEOUT_S / 2
    assert service.jobs.get(job.id).finished


def test_a_job_is_cancelled_during_its_validation(service: TuningService) -> None:
    job = create_job(service, training=upload(service, {"prepare": "hold"}))
    wait_until(lambda: processes_in(service.folder), bool)
    service.jobs.cancel(job.id)
    assert service.jobs.get(job.id).status == "cancelled" and not processes_in(service.folder)


def test_a_job_that_has_ended_cannot_be_cancelled_paused_or_resumed(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service).id)
    for action in (service.jobs.cancel, service.jobs.pause, service.jobs.resume):
        with pytest.raises(BadRequest, match="has ended: its status is succeeded"):
            action(job.id)


def test_a_paused_job_goes_on_from_where_it_was(service: TuningService) -> None:
    job = create_job(service, {"hold_at": 7}, steps=12)
    wait_for_step(service, job.id, 7)
    service.jobs.pause(job.id)
    job = wait_for_job(service, job.id, "paused")
    assert job.progress.step == 7
    assert not processes_in(service.folder)
    assert service.jobs.resume(job.id).status == "queued"
    job = wait_for_job(service, job.id)
    assert job.status == "succeeded"
    assert "Fine-tuning job resumed from its last saved state" in messages(service, job.id)
    listing = service.jobs.events(job.id, limit=1000).values
    steps = [event.data["step"] for event in listing if event.data and "learning_rate" in event.data]
    assert steps == list(range(12, 0, -1))


def test_one_job_trains_at_a_time_and_the_others_wait(service: TuningService) -> None:
    first = create_job(service, {"hold_at": 1})
    wait_for_step(service, first.id)
    second = create_job(service)
    wait_for_job(service, second.id, "queued")
    third = create_job(service)
    wait_for_job(service, third.id, "queued")
    service.jobs.pause(second.id)
    assert service.jobs.get(second.id).status == "paused"
    service.jobs.cancel(first.id)
    assert wait_for_job(service, third.id).status == "succeeded"
    assert service.jobs.get(second.id).status == "paused"


def test_several_jobs_train_at_a_time_if_they_may(open_services: MakeService) -> None:
    service = open_services(TuningSettings(tuning_jobs=2))
    jobs = [create_job(service, {"hold_at": 1}) for _ in range(2)]
    for job in jobs:
        wait_for_job(service, job.id, "running")
    for job in jobs:
        service.jobs.cancel(job.id)


@pytest.mark.system("posix")
def test_a_trainer_is_nice_and_in_a_session_of_its_own(service: TuningService) -> None:
    job = create_job(service, {"hold_at": 1})
    wait_for_step(service, job.id)
    process = psutil.Process(trainer_pid(service, job.id))
    assert process.nice() > psutil.Process().nice() and os.getsid(process.pid) == process.pid
    assert process.environ()["MALLOC_TRIM_THRESHOLD_"] == "131072"
    service.jobs.cancel(job.id)


def test_a_dry_run_stores_nothing(service: TuningService) -> None:
    request = JobRequest(model="fake/model", method="supervised", training=upload(service, ROW, ROW))
    prepared = service.jobs.dry_run(request)
    assert (prepared.num_examples, prepared.error) == (2, None)
    assert service.jobs.list(limit=10).values == [] and list((service.folder / "jobs").iterdir()) == []


def test_a_job_that_no_longer_fits_fails_before_it_starts(open_services: MakeService) -> None:
    free_bytes = [10**12]
    service = open_services(free_bytes=lambda: free_bytes[0])
    running = create_job(service, {"hold_at": 1})
    wait_for_step(service, running.id)
    job = create_job(service)
    wait_for_job(service, job.id, "queued")
    free_bytes[0] = 500
    service.jobs.cancel(running.id)
    job = wait_for_job(service, job.id)
    assert job.error and job.error.code == "insufficient_memory" and job.started is None
    assert "needs 1.0 kB of memory; beside serving there is 500 bytes now" in job.error.message


def test_a_deleted_model_is_gone(service: TuningService, adapters: RecordingAdapters) -> None:
    job = wait_for_job(service, create_job(service).id)
    names = [job.model, f"{job.model}:ckpt-step-5"]
    folders = [adapters.loaded[name] for name in names]
    assert all(folder.exists() for folder in folders)
    assert [service.jobs.delete_model(name) for name in names] == [True, True]
    assert not any(folder.exists() for folder in folders)
    assert [service.jobs.delete_model(name) for name in names] == [False, False]
    assert len(service.jobs.checkpoints(job.id, limit=10).values) == 1


def test_the_files_of_a_checkpoint_stay_while_its_job_runs(
    service: TuningService, adapters: RecordingAdapters
) -> None:
    job = create_job(service, {"hold_at": 5})
    name = f"{job.model}:ckpt-step-5"
    wait_until(lambda: dict(adapters.loaded), lambda loaded: name in loaded)
    folder = adapters.loaded[name]
    assert service.jobs.delete_model(name) and folder.exists() and name not in adapters.loaded
    service.jobs.cancel(job.id)


def test_a_dry_run_returns_what_its_program_wrote_and_is_no_job(service: TuningService) -> None:
    request = JobRequest(model="fake/model", method="supervised", training=upload(service, ROW, ROW))
    prepared = service.jobs.dry_run(request)
    assert (prepared.num_tokens, prepared.estimated_s) == (20, 3.0)
    assert not service.jobs.list(limit=10).values


def test_a_dry_run_has_an_end(service: TuningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "DRY_RUN_S", 0.3)
    training = upload(service, ROW | {"prepare": "hold"})
    error = service.jobs.dry_run(JobRequest(model="fake/model", method="supervised", training=training)).error
    assert error and (error.code, error.param) == ("timeout", "training_file")
    assert "ended after 0.3 s: try the first rows of the file, or create the job" in error.message
    assert not processes_in(service.folder)


def test_a_refused_dry_run_names_the_time_until_one_ends(
    service: TuningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it is estimated from their CPU time: tests/process/test_repeated_work.py."""
    runs: list[WorkRun] = []

    class NamedWait(WorkRun):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            runs.append(self)

        def remaining_s(self, now: float) -> float:
            return (40.0, 20.0)[runs.index(self)]

    monkeypatch.setattr(queue, "WorkRun", NamedWait)
    request = JobRequest(
        model="fake/model", method="supervised", training=upload(service, ROW | {"prepare": "hold"})
    )
    threads = [threading.Thread(target=service.jobs.dry_run, args=[request]) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(processes_in(service.folder)), lambda num_running: num_running == 2)
    with pytest.raises(Overloaded) as refused:
        service.jobs.dry_run(request)
    assert refused.value.retry_after == 20
    for folder in (service.folder / "jobs").iterdir():
        release(folder)
    for thread in threads:
        thread.join()
    assert all(run._cpu_s > 0 for run in runs) and service._queue._dry_runs.has_run
