"""The memory of the processes of models on demand: what the plan says, and the most that they had."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from checks.several_models import CPU, share_memory
from settings import flags
from settings.sources import read_sources, resolve
from startup.on_demand import HOME, check_models

INTERVAL_S = 0.5


@dataclass(slots=True)
class ProcessPeak:
    """planned_bytes: of the largest model; process_bytes: the most that one process had for itself."""

    planned_bytes: int
    process_bytes: int = 0
    num_processes: int = 0

    def record(self, pid: int) -> None:
        """Record the children of the server with this process id."""
        sizes = []
        for child in psutil.Process(pid).children():
            with suppress(psutil.Error):  # it has just ended
                sizes.append(child.memory_full_info().uss)
        self.num_processes = max(self.num_processes, len(sizes))
        self.process_bytes = max(self.process_bytes, *sizes, 0)


def planned_bytes(arguments: Sequence[str]) -> int:
    """The RAM that a server with this command line plans for its largest model."""
    settings = resolve((*read_sources(HOME, os.environ), flags.parse(list(arguments)).flags))
    checked = check_models(settings)
    shared = share_memory(checked.planned, checked.machine, settings.max_loaded_models)
    return max(share.num_bytes[CPU] for share in shared.shares.values())


@contextmanager
def recording_peak(pid: int, planned: int) -> Iterator[ProcessPeak]:
    """Record the memory of a server's children until the block ends."""
    peak, over = ProcessPeak(planned), threading.Event()

    def keep_recording() -> None:
        while not over.wait(INTERVAL_S):
            peak.record(pid)

    thread = threading.Thread(target=keep_recording)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
