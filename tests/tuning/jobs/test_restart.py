"""What a restart keeps: jobs go on, models answer, and nothing is recorded twice or lost."""

import contextlib
import mmap
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from inference.errors import BadRequest
from inference.process.child_program import ROOT
from tests.tuning.conftest import MakeService
from tests.tuning.jobs.job_processes import processes_in, wait_for_step
from tests.tuning.scripted_service import (
    ROW,
    RecordingAdapters,
    create_job,
    make_service,
    messages,
    upload,
    wait_for_job,
    wait_until,
)
from tuning.job_files import PROGRESS_FILE, SPEC_FILE, read_value
from tuning.jobs.validation import PLANNED_AGAIN
from tuning.service import InUse, TuningService
from tuning.types import JobSpec

pytestmark = pytest.mark.system("posix")  # the servers are forks of one process
RESTARTED = "The server was restarted: the job goes on from its last saved state"


class KilledServer:
    """A server in a process of its own. kill: with SIGKILL; returns when its trainers are gone, too."""

    def __init__(self, servers: subprocess.Popen[str], folder: Path) -> None:
        assert servers.stdin and servers.stdout
        print(folder, file=servers.stdin, flush=True)
        self.process = psutil.Process(int(servers.stdout.readline()))

    def trainers(self) -> list[psutil.Process]:
        return self.process.children(recursive=True)

    def kill(self) -> None:
        trainers = self.trainers()
        self.process.kill()
        self.process.wait()
        wait_until(lambda: [each for each in trainers if is_alive(each)], lambda alive: not alive)


@pytest.fixture(scope="module")
def servers() -> Iterator[subprocess.Popen[str]]:
    """The process that forks the servers."""
    command = [sys.executable, "-m", "tests.tuning.jobs.server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):  # it may end between the two calls
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def step_events(service: TuningService, job_id: str) -> list[int]:
    values = service.jobs.events(job_id, limit=10_000).values[::-1]
    return [event.data["step"] for event in values if event.data and "learning_rate" in event.data]


def test_a_stopped_server_goes_on_with_its_jobs(open_services: MakeService) -> None:
    first = open_services()
    job = create_job(first, {"hold_at": 7}, steps=12)
    waiting = create_job(first)
    wait_for_step(first, job.id, 7)
    first.close()
    assert not processes_in(first.folder)
    second = open_services()
    assert wait_for_job(second, job.id).status == wait_for_job(second, waiting.id).status == "succeeded"
    assert step_events(second, job.id) == list(range(1, 13))
    assert messages(second, job.id).count(RESTARTED) == 1


def test_models_answer_again_after_a_restart(open_services: MakeService, adapters: RecordingAdapters) -> None:
    first = open_services()
    job = wait_for_job(first, create_job(first).id)
    loaded = dict(adapters.loaded)
    first.close()
    adapters.loaded.clear()
    second = open_services()
    assert adapters.loaded == loaded and job.fine_tuned_model in loaded
    assert second.jobs.get(job.id) == job


def test_a_model_that_can_no_longer_be_served_does_not_stop_the_start(
    open_services: MakeService, adapters: RecordingAdapters, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_services()
    job = wait_for_job(first, create_job(first).id)
    first.close()
    adapters.refused.add(job.model)
    second = open_services()
    assert f"model={job.model} cannot be served" in caplog.text and second.jobs.get(job.id)


def test_a_folder_has_one_server(open_services: MakeService) -> None:
    first = open_services()
    with pytest.raises(InUse, match="another server uses"):
        open_services()
    assert first.jobs.list(limit=1).values == []


def test_what_a_killed_server_has_left_unfinished_is_removed(open_services: MakeService) -> None:
    first = open_services()
    kept_id = upload(first, ROW)
    first.datasets.register("d", "eval", {"type": "rows", "rows": [ROW]})
    for name in ("files/.upload-x", "files/file-orphan", "datasets/orphan"):
        (first.folder / name).touch()
    (first.folder / "jobs" / "dry-run-x").mkdir()
    first.close()
    second = open_services()
    assert [path.name for path in (second.folder / "files").iterdir()] == [kept_id]
    assert list((second.folder / "jobs").iterdir()) == []
    assert second.datasets.rows("d", 0, -1) == [ROW]


def test_a_result_that_was_not_published_is_published_after_a_restart(
    open_services: MakeService, adapters: RecordingAdapters
) -> None:
    first = open_services()
    job = create_job(first, {"hold_at": 2})
    wait_for_step(first, job.id, 2)
    first.close()
    folder = first.folder / "jobs" / job.folder
    adapter = folder / "result"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    with (folder / PROGRESS_FILE).open("a") as progress:
        progress.write(f'{{"type": "finished", "folder": "{adapter}"}}\n')
    second = open_services()
    assert wait_for_job(second, job.id).status == "succeeded" and job.model in adapters.loaded


def kill_server(server: KilledServer) -> None:
    server.kill()


def kill_trainer(server: KilledServer) -> None:
    send_to_trainers(server, signal.SIGKILL)


def terminate_trainer(server: KilledServer) -> None:
    send_to_trainers(server, signal.SIGTERM)


def send_to_trainers(server: KilledServer, number: int) -> None:
    for trainer in server.trainers():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended meanwhile
            trainer.send_signal(number)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_when_servers_and_trainers_are_killed(
    servers: subprocess.Popen[str], tmp_path: Path, seed: int
) -> None:
    """Jobs end as succeeded, or as failed if their trainer was killed; each step has one event."""
    chance, folder = random.Random(seed), tmp_path / "tuning"
    service = make_service(folder, RecordingAdapters())
    ids = [create_job(service, {"step_s": 0.01}, steps=chance.randint(20, 120)).id for _ in range(4)]
    service.close()
    for _ in range(10):
        server = KilledServer(servers, folder)
        time.sleep(chance.random() * 1.5)
        actions: list[Callable[[KilledServer], None]] = [kill_server, kill_trainer, terminate_trainer]
        chance.choice(actions)(server)
        if is_alive(server.process):
            time.sleep(chance.random() * 0.3)
            server.kill()
    adapters = RecordingAdapters()
    service = make_service(folder, adapters)
    jobs = [wait_for_job(service, id) for id in ids]
    for job in jobs:
        steps = step_events(service, job.id)
        assert steps == list(range(1, len(steps) + 1))
        if job.status == "succeeded":
            assert len(steps) == job.progress.total_steps and job.model in adapters.loaded
            assert messages(service, job.id).count(f"New fine-tuned model created: {job.model}") == 1
        else:
            assert job.status == "failed" and job.error and "ended by SIGKILL" in job.error.message
    service.close()


def test_a_plan_is_made_again_where_the_weights_are_no_longer_mapped(
    open_services: MakeService, tmp_path: Path
) -> None:
    weight_file = tmp_path / "weights.packed"
    weight_file.write_bytes(b"packed")
    first = open_services(weight_file=str(weight_file))
    with weight_file.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        job = create_job(first, {"hold_at": 2})
        wait_for_step(first, job.id, 2)
        spec_file = first.folder / "jobs" / job.folder / SPEC_FILE
        assert read_value(spec_file, JobSpec).shares_weights
        first.close()
    weight_file.unlink()
    second = open_services(weight_file=str(weight_file))
    assert wait_for_job(second, job.id).status == "succeeded"
    assert messages(second, job.id).count(PLANNED_AGAIN) == 1
    assert not read_value(spec_file, JobSpec).shares_weights
    assert step_events(second, job.id) == list(range(1, 11))


def test_the_training_goes_on_from_a_fine_tuned_model(service: TuningService) -> None:
    first = wait_for_job(service, create_job(service).id)
    second = wait_for_job(service, create_job(service, model=first.model).id)
    initial = service.folder / "jobs" / second.folder / "initial"
    assert (initial / "adapter_config.json").exists()
    with pytest.raises(BadRequest, match="seed"):
        create_job(service, model=first.model, seed=-1)
