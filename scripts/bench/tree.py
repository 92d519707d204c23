"""A process with all its children: what they worked, and the memory that they held.

Memory is the sum over the processes of the most that each held resident: pages of mapped files count where
they are in memory, and pages that several share count once for each.
"""

from collections.abc import Callable
from pathlib import Path

import psutil

RESET = "5"  # proc(5), clear_refs: the mark starts again from what is held now


class Tree:
    def __init__(self, pid: int) -> None:
        self._root = pid

    def worked(self) -> float:
        """Seconds of processor time so far, of those that live."""
        times = [process.cpu_times() for process in self._processes()]
        return sum(time.user + time.system for time in times)

    def reset_peak(self) -> None:
        for process in self._processes():
            told(lambda pid=process.pid: Path(f"/proc/{pid}/clear_refs").write_text(RESET))

    def peak_mb(self) -> float:
        """Since the processes began, or since `reset_peak`; where the system keeps no mark: now."""
        return sum(mark(process) for process in self._processes()) / 1e6

    def _processes(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._root)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def mark(process: psutil.Process) -> float:
    """Bytes: the kernel's VmHWM."""
    status = told(Path(f"/proc/{process.pid}/status").read_text)
    rows = (row.split() for row in status.splitlines())
    kept = next((1024.0 * int(row[1]) for row in rows if row[0] == "VmHWM:"), None)
    return float(process.memory_info().rss) if kept is None else kept


def told(ask: Callable[[], object]) -> str:
    """ "" where the system has no such file, or keeps it to itself."""
    try:
        return str(ask())
    except OSError:
        return ""
