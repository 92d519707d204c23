"""The work of a process that loads, as each system counts it."""

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from inference.on_demand import load_progress
from inference.on_demand.load_progress import bytes_of, work_of

LINUX = namedtuple("LINUX", "read_count write_count read_bytes write_bytes read_chars write_chars")
WINDOWS = namedtuple("WINDOWS", "read_count write_count read_bytes write_bytes other_count other_bytes")


@pytest.mark.parametrize(
    ("counters", "num_bytes"), [(LINUX(1, 2, 30, 40, 500, 600), 1130), (WINDOWS(1, 2, 30, 40, 5, 6), 70)]
)
def test_bytes_are_those_of_system_calls(counters: Any, num_bytes: int) -> None:
    assert bytes_of(SimpleNamespace(io_counters=lambda: counters)) == num_bytes  # type: ignore[arg-type]


def test_this_process_has_worked() -> None:
    work = work_of(psutil.Process().pid)
    assert work.num_bytes > 0 and work.cpu_s > 0


def test_where_processes_have_no_counters_those_of_the_machine_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_progress, "COUNTS_BYTES", False)
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: SimpleNamespace(read_bytes=3, write_bytes=4))
    monkeypatch.setattr(psutil, "net_io_counters", lambda: SimpleNamespace(bytes_recv=50))
    assert work_of(psutil.Process().pid).num_bytes == 57
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: None)  # a machine without disks
    assert work_of(psutil.Process().pid).num_bytes == 50
