"""Measures CPU time and peak memory of a process and all its descendants.

Peak memory is the sum of the processes' peak resident memory. It includes resident pages of mapped files, and
counts shared pages once for each process.
"""

import psutil

from inference.process.memory.rss import reset_peak, resident_memory


class ProcessTree:
    def __init__(self, pid: int) -> None:
        self._root = pid

    def cpu_s(self) -> float:
        """CPU seconds so far of the processes that are still running."""
        times = [process.cpu_times() for process in self._processes()]
        return sum(time.user + time.system for time in times)

    def reset_peak(self) -> None:
        for process in self._processes():
            reset_peak(process.pid)

    def peak_mb(self) -> float:
        """Peak memory in MB since `reset_peak`, or since the start.

        The current memory if the system has no peak counter.
        """
        memories = [resident_memory(process.pid) for process in self._processes()]
        return sum(memory.peak or memory.total for memory in memories) / 1e6

    def _processes(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._root)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
