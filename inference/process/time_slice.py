"""The scheduler's time slice of a thread: how long it computes before other threads get their turn.

A thread with a shorter slice gets a core sooner once it wakes, and no larger share. Knows Linux's
sched_setattr(2), which sets slices from Linux 6.12 on; elsewhere nothing changes.
"""

import ctypes
import os
import platform
import sys

SHORT_SLICE_NS = 100_000  # the least that Linux accepts; its default is 1.4 to 3 ms
# sched_setattr and sched_getattr; the C library has no functions for them.
SYSCALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
RESET_ON_FORK = 1  # SCHED_FLAG_RESET_ON_FORK


class SchedAttr(ctypes.Structure):
    """struct sched_attr of linux/sched/types.h; `runtime` is the slice in nanoseconds."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def shorten_time_slice(inherited: bool) -> None:
    """Give this thread short slices, if the system can. inherited: threads that it starts get them, too."""
    attributes = read_attributes()
    if attributes is None or attributes.policy != os.SCHED_OTHER:
        return
    attributes.flags, attributes.runtime = 0 if inherited else RESET_ON_FORK, SHORT_SLICE_NS
    setattr_number, _ = SYSCALLS[platform.machine()]
    ctypes.CDLL(None).syscall(setattr_number, 0, ctypes.byref(attributes), 0)


def read_attributes() -> SchedAttr | None:
    """The scheduling attributes of this thread; None if the system does not provide them."""
    if sys.platform != "linux" or platform.machine() not in SYSCALLS:
        return None
    attributes, (_, getattr_number) = SchedAttr(), SYSCALLS[platform.machine()]
    size = ctypes.sizeof(SchedAttr)
    failed = ctypes.CDLL(None).syscall(getattr_number, 0, ctypes.byref(attributes), size, 0)
    return None if failed else attributes
