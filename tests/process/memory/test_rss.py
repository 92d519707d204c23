"""The RAM of this process."""

import os
import subprocess
import sys

import pytest
import torch

from inference.model.lazy_zeros import lazy_zeros
from inference.process.memory import rss
from inference.process.memory.malloc import trim_heap
from inference.process.memory.rss import ResidentMemory, reset_peak, resident_memory, written_bytes

MB = 1_000_000


def test_written_memory_is_counted_and_returned_when_it_is_freed() -> None:
    before = resident_memory()
    data = torch.ones(100 * MB, dtype=torch.uint8)
    assert 95 * MB < resident_memory().own - before.own < 110 * MB
    del data
    trim_heap()
    assert resident_memory().own - before.own < 20 * MB


@pytest.mark.system("linux")
def test_a_peak_is_kept_until_it_is_reset() -> None:
    data = torch.ones(100 * MB, dtype=torch.uint8)
    high = resident_memory().total
    del data
    trim_heap()
    assert resident_memory().peak >= high - MB
    reset_peak()
    assert resident_memory().peak < high - 50 * MB


@pytest.mark.system("linux")
def test_only_written_pages_are_resident() -> None:
    data = lazy_zeros((10 * MB,), torch.empty(0, dtype=torch.uint8))
    before = written_bytes(data.data_ptr(), data.nbytes)
    data[: 2 * MB] = 1
    assert before < MB
    assert 2 * MB <= written_bytes(data.data_ptr(), data.nbytes) < 3 * MB


def test_without_proc_a_process_that_has_ended_has_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rss, "STATUS", "no such file")
    assert resident_memory().own > 10 * MB
    with subprocess.Popen((sys.executable, "-S", "-c", "pass")) as process:
        process.wait()
        assert resident_memory(process.pid) == ResidentMemory(0, 0, 0)


@pytest.mark.system("linux")
def test_a_process_that_has_ended_has_no_memory() -> None:
    with subprocess.Popen(("true",)) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its status stays: it is a zombie
        assert resident_memory(process.pid) == ResidentMemory(0, 0, 0)
