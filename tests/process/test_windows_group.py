"""A job object and an event of Windows, by the calls of kernel32 that they make."""

import ctypes
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from inference.process import windows_group
from inference.process.windows_group import EVENT_NAME, KILLED, JobLimits, WindowsGroup, raise_at_event


class FakeKernel:
    """Each function returns the number of its call, or the next of `waits`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.waits: Iterator[int] = iter(())

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            return next(self.waits) if name == "WaitForSingleObject" else len(self.calls)

        return call


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    kernel = FakeKernel()
    monkeypatch.setattr(windows_group, "kernel32", lambda: kernel)
    return kernel


def test_the_limits_are_laid_out_as_windows_reads_them() -> None:
    assert (ctypes.sizeof(JobLimits), JobLimits.flags.offset) == (144, 16)  # of a 64-bit program


def test_a_group_is_killed_with_all_its_processes_and_its_handles_are_closed(kernel: FakeKernel) -> None:
    group = WindowsGroup()
    event, job = 1, 2
    group.add(77)
    group.ask_to_end()
    group.kill()
    del group
    assert [call for call in kernel.calls[3:] if call[0] != "CloseHandle"] == [
        ("AssignProcessToJobObject", (job, 77)),
        ("SetEvent", (event,)),
        ("TerminateJobObject", (job, KILLED)),
    ]
    assert [arguments for name, arguments in kernel.calls if name == "CloseHandle"] == [(job,), (event,)]


def test_a_child_waits_for_the_event_of_its_parent(kernel: FakeKernel) -> None:
    environment = WindowsGroup().environment({"A": "b"})
    assert environment == {"A": "b", EVENT_NAME: kernel.calls[0][1][-1]}


def test_each_event_raises_the_signal(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.waits = iter((0, 0, -1))
    raised: list[int] = []
    monkeypatch.setattr(signal, "getsignal", lambda number: raised.append)
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    raise_at_event("name")
    assert raised == [signal.SIGTERM, signal.SIGTERM]


def test_without_a_handler_the_event_ends_the_process(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.waits = iter((0,))
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)

    def exit_at_once(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", exit_at_once)
    with pytest.raises(SystemExit, match="143"):
        raise_at_event("name")
