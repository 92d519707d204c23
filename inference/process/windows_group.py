"""A child of Windows with the processes below it: a job object as the group, an event as SIGTERM.

Knows kernel32. The job ends its processes when its last handle is closed, as the death of this process does.
Windows has no signals between processes without a console: a child waits for a named event on a thread.
"""

import ctypes
import os
import signal
import uuid
from collections.abc import Callable, Mapping
from ctypes import wintypes
from typing import Any

EVENT_NAME = "HEARTH_END_EVENT"  # environment variable of a child
KILLED, TERMINATED = 128 + 9, 128 + 15  # exit codes; a shell gives SIGKILL and SIGTERM these
# Of winnt.h, winbase.h and winnt.h's JOBOBJECTINFOCLASS.
KILL_ON_JOB_CLOSE, INFINITE, EXTENDED_LIMITS = 0x2000, 0xFFFFFFFF, 9
HANDLE, BOOL, DWORD, TEXT, POINTER = (
    wintypes.HANDLE,
    wintypes.BOOL,
    wintypes.DWORD,
    wintypes.LPCWSTR,
    ctypes.c_void_p,
)
FUNCTIONS: tuple[tuple[str, Callable[..., Any], tuple[Any, ...]], ...] = (
    ("CreateEventW", HANDLE, (POINTER, BOOL, BOOL, TEXT)),
    ("SetEvent", BOOL, (HANDLE,)),
    ("WaitForSingleObject", DWORD, (HANDLE, DWORD)),
    ("CreateJobObjectW", HANDLE, (POINTER, TEXT)),
    ("SetInformationJobObject", BOOL, (HANDLE, ctypes.c_int, POINTER, DWORD)),
    ("AssignProcessToJobObject", BOOL, (HANDLE, HANDLE)),
    ("TerminateJobObject", BOOL, (HANDLE, wintypes.UINT)),
    ("CloseHandle", BOOL, (HANDLE,)),
)


class JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION of winnt.h; what is after the flags stays zero."""

    _fields_ = (
        ("per_process_time", ctypes.c_int64),
        ("per_job_time", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("working_sets", ctypes.c_size_t * 2),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("priority_and_scheduling", ctypes.c_uint32 * 2),
        ("io_counters", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


class WindowsGroup:
    """What a parent has of a child and of all that the child starts. Lives as long as the child may."""

    def __init__(self) -> None:
        self._kernel = kernel32()
        self._name = f"hearth-{uuid.uuid4().hex}"
        self._event = checked(self._kernel.CreateEventW(None, False, False, self._name))
        self._job = checked(self._kernel.CreateJobObjectW(None, None))
        limits = JobLimits(flags=KILL_ON_JOB_CLOSE)
        size = ctypes.sizeof(limits)
        checked(self._kernel.SetInformationJobObject(self._job, EXTENDED_LIMITS, ctypes.byref(limits), size))

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of the child, which names the event."""
        return {**environment, EVENT_NAME: self._name}

    def add(self, process_handle: int) -> None:
        """Take in the child, before it has started others."""
        checked(self._kernel.AssignProcessToJobObject(self._job, process_handle))

    def ask_to_end(self) -> None:
        """Have the child raise SIGTERM, see `raise_at_event`."""
        checked(self._kernel.SetEvent(self._event))

    def kill(self) -> None:
        """End all processes at once; those that have ended too are no error."""
        checked(self._kernel.TerminateJobObject(self._job, KILLED))

    def __del__(self) -> None:
        for name in ("_job", "_event"):
            if handle := vars(self).get(name):
                self._kernel.CloseHandle(handle)


def raise_at_event(name: str) -> None:
    """Raise SIGTERM in this process whenever its parent asks it to end. Blocks: for a thread of its own."""
    kernel = kernel32()
    event = checked(kernel.CreateEventW(None, False, False, name))
    while not kernel.WaitForSingleObject(event, INFINITE):
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            os._exit(TERMINATED)
        signal.raise_signal(signal.SIGTERM)  # its handler runs on the main thread


def kernel32() -> Any:
    """The library with the types of the functions that are used here."""
    library = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    for name, result, arguments in FUNCTIONS:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def checked(result: Any) -> Any:
    """A handle or a success. Raises OSError for zero, which stands for failure."""
    if not result:
        raise ctypes.WinError(ctypes.get_last_error())  # type: ignore[attr-defined]
    return result
