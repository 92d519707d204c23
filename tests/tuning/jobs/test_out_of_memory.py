"""Memory refused while jobs are started and followed: they wait, and are trained once."""

from pathlib import Path
from typing import Any

import pytest

from tests.tuning.jobs.failing_once import failing_once
from tests.tuning.jobs.job_processes import processes_in
from tests.tuning.jobs.prepared_rows import ROWS, prepare_rows
from tests.tuning.scripted_service import create_job, messages, wait_for_job, wait_until
from tuning.jobs import prepare, queue, training
from tuning.service import TuningService


@pytest.mark.parametrize(
    ("module", "name"), [(queue, "jobs_with_status"), (queue, "follow_training"), (training, "begin_run")]
)
def test_a_job_waits_for_memory(
    module: Any, name: str, service: TuningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(queue, "RETRY_S", 0.02)
    monkeypatch.setattr(module, name, failing_once(getattr(module, name), calls, MemoryError()))
    job = wait_for_job(service, create_job(service).id)
    assert calls and (job.status, job.error) == ("succeeded", None)
    assert messages(service, job.id).count("Fine-tuning job started") == 1
    wait_until(lambda: processes_in(service.folder), lambda running: not running)


def test_a_dry_run_without_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "encode", failing_once(prepare.encode, [], MemoryError()))
    error = prepare_rows(tmp_path, *ROWS).error
    assert error and (error.code, error.param) == ("out_of_memory", "training_file")
    assert "a file with fewer rows" in error.message
