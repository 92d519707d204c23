"""A full disk: the server's jobs wait for room, and a trainer ends in words."""

import errno
import os
from typing import Any

import pytest
from safetensors import SafetensorError

from tests.tuning.jobs.failing_once import failing_once
from tests.tuning.scripted_service import create_job, wait_for_job
from tuning.jobs import fine_tuned_models, queue
from tuning.service import TuningService
from tuning.trainer.job.failures import to_failure

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
SERIALIZING = "Error while serializing: I/O error: No space left on device (os error 28)"


@pytest.mark.parametrize(
    ("module", "name"), [(fine_tuned_models.shutil, "copytree"), (queue, "start_training")]
)
def test_a_job_waits_for_room(
    module: Any, name: str, service: TuningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(queue, "RETRY_S", 0.02)
    monkeypatch.setattr(module, name, failing_once(getattr(module, name), calls, FULL))
    job = wait_for_job(service, create_job(service).id)
    assert len(calls) > 1 and (job.status, job.error) == ("succeeded", None)


def test_a_trainer_that_could_write_nothing_says_so(service: TuningService) -> None:
    job = wait_for_job(service, create_job(service, {"exit_at": 1, "last_words": str(FULL)}).id)
    assert job.error and job.error.code == "insufficient_disk" and str(FULL) in job.error.message


@pytest.mark.parametrize("error", [FULL, SafetensorError(SERIALIZING)], ids=repr)
def test_a_checkpoint_without_room_ends_the_job_in_words(error: Exception) -> None:
    failure = to_failure(error)
    assert failure.code == "insufficient_disk"
    assert "free some of it" in str(failure) and "its last checkpoint" in str(failure)
