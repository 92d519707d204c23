"""A job of two processes ends as one: in words when the other process dies, and after a pause it goes on."""

import io
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from inference.errors import Internal
from tests.servers.forked_main import ForkedProcess
from tests.tuning.trainer.job.children import WAIT_S, chat_rows, of_type, train, wait_for_step, write_job
from tuning.job_files import SPEC_FILE, write_value
from tuning.trainer.data_parallel import replicas
from tuning.trainer.data_parallel.messages import raise_failures, to_reply
from tuning.trainer.data_parallel.replicas import Replica, ReplicaGroup
from tuning.trainer.job.failures import to_failure
from tuning.trainer.whole_passes import PassInterrupted


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for_death(pids: list[int]) -> None:
    deadline = time.monotonic() + WAIT_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.02)


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.system("linux")
@pytest.mark.slow
def test_two_processes_pause_go_on_and_end_together(tmp_path: Path, model_folder: Path) -> None:
    """SIGTERM reaches both; the death of one is the job's end, in words, with none left over."""
    spec = write_job(tmp_path, model_folder, chat_rows(8), n_epochs=5000)
    write_value(tmp_path / SPEC_FILE, replace(spec, num_processes=2))
    first = ForkedProcess(train, tmp_path)
    wait_for_step(tmp_path, 3)
    (other,) = children_of(first.pid)
    first.terminate()
    assert first.wait(WAIT_S) == 0
    (paused,) = of_type(tmp_path, "paused")
    wait_for_death([other])
    first = ForkedProcess(train, tmp_path)
    wait_for_step(tmp_path, paused["step"] + 3)
    (other,) = children_of(first.pid)
    os.kill(other, signal.SIGKILL)
    assert first.wait(WAIT_S) == 1
    (failed,) = of_type(tmp_path, "failed")
    assert failed["message"].startswith("process 2 of 2 died: it was ended by SIGKILL: if memory was short")
    wait_for_death([other])


class FakeProcess:
    """A process that runs until it is killed."""

    returncode: int | None = None

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def poll(self) -> None:
        return None

    def wait(self, timeout: float | None = None) -> None:
        if not self.is_over.wait(timeout):
            raise subprocess.TimeoutExpired("fake", timeout or 0.0)

    def kill(self) -> None:
        self.is_over.set()


def test_a_group_that_cannot_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """When one ended later, it would take this one with it."""
    process, setup = FakeProcess(), SimpleNamespace(spec=SimpleNamespace(num_processes=2, device="cpu"))
    monkeypatch.setattr(replicas, "EXIT_S", 0.0)
    monkeypatch.setattr(replicas.process_group, "create_store", lambda num_processes: SimpleNamespace(port=1))
    monkeypatch.setattr(replicas, "start_replica", lambda rank: Replica(rank, process, io.BytesIO()))  # type: ignore[arg-type]
    with pytest.raises(EOFError):  # it replies nothing
        ReplicaGroup(setup)  # type: ignore[arg-type]
    assert process.is_over.is_set()


def test_errors_cross_processes_with_their_meaning() -> None:
    raise_failures([None, "result"])
    with pytest.raises(PassInterrupted):
        raise_failures([to_reply(PassInterrupted())])
    with pytest.raises(MemoryError) as memory:
        raise_failures([to_reply(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))])
    assert to_failure(memory.value).code == "out_of_memory"
    with pytest.raises(Internal, match="KeyError"):
        raise_failures([None, to_reply(KeyError("x"))])
