"""The processes of jobs, and what they have come to."""

from pathlib import Path

import psutil

from tests.tuning.scripted_service import wait_until
from tuning.service import TuningService


def processes_in(folder: Path) -> list[psutil.Process]:
    """The running processes that this one started with a folder of that one: other tests have others."""
    return [each for each in psutil.Process().children(recursive=True) if names_folder(each, str(folder))]


def names_folder(process: psutil.Process, folder: str) -> bool:
    try:
        return any(argument.startswith(folder) for argument in process.cmdline())
    except psutil.NoSuchProcess:  # or a zombie
        return False


def wait_for_step(service: TuningService, job_id: str, step: int = 1) -> None:
    wait_until(lambda: service.jobs.get(job_id).progress.step, lambda current: current >= step)
