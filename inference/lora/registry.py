"""The adapters of a backend: loads and lists them, leases them to requests, lets the least used ones go.

An adapter that leaves memory stays listed and is read again for the next request. Knows names, numbers and
sizes; the tasks that it runs know the model.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from inference.drain_rate import RecentDurations, overloaded
from inference.engine.step_output import OutputSink, StepOutput
from inference.errors import NotFound
from inference.finding import format_size
from inference.lora.adapter import AdapterCard, AdapterExists, check_name
from inference.lora.config import refusal
from inference.lora.load import LoadedAdapter, load_adapter, remove_adapter


class RunTask(Protocol):
    """Runs a task (see load.py) on all ranks, on the thread of the model, between its steps.

    Returns a function that waits for the task's result. Raises Unavailable once the engine is closed.
    """

    def __call__(self, task: Callable[..., Any], *args: Any) -> Callable[[], Any]: ...


@dataclass(slots=True, eq=False)
class RegisteredAdapter:
    """An adapter under its name.

    num_leases   answers that compute with its weights
    busy_since   time.monotonic() of the first of them
    is_resident  whether its weights are in memory
    is_listed    whether requests may still name it
    last_used    a later use has a larger number
    """

    card: AdapterCard
    folder: Path
    num_leases: int = 0
    busy_since: float = 0.0
    is_resident: bool = True
    is_listed: bool = True
    last_used: int = 0

    def add_leases(self, num_leases: int) -> None:
        self.busy_since = self.busy_since if self.num_leases else time.monotonic()
        self.num_leases += num_leases


class AdapterRegistry:
    """The Adapters (see inference/backend.py) of a local backend.

    run_task      runs load_adapter and remove_adapter
    to_peft       the folder, in peft's form, of an adapter's folder or file. Raises BadRequest
    need_bytes    memory that the adapter in a folder takes. Raises BadRequest for files that do not fit
    free_bytes    memory that adapters may take now
    until_unused  seconds until the first adapter is expected to be unused; None if unknown
    max_adapters  in memory at a time
    """

    def __init__(
        self,
        run_task: RunTask,
        to_peft: Callable[[Path], Path],
        need_bytes: Callable[[Path], int],
        free_bytes: Callable[[], int],
        until_unused: Callable[[], float | None],
        *,
        max_adapters: int,
        max_rank: int,
    ) -> None:
        self._run_task, self._to_peft = run_task, to_peft
        self._need_bytes, self._free_bytes, self._until_unused = need_bytes, free_bytes, until_unused
        self._max_adapters, self._max_rank = max_adapters, max_rank
        self._entries: dict[str, RegisteredAdapter] = {}
        self._numbers, self._clock = count(1), count(1)
        self._durations = RecentDurations()  # of adapters, from their first answer to the end of the last one
        self._lock = threading.Lock()  # of the entries; never while a task runs
        self._loading = threading.Lock()  # one adapter is loaded at a time

    def cards(self) -> Sequence[AdapterCard]:
        with self._lock:
            return [entry.card for entry in self._entries.values()]

    def load(self, name: str, folder: Path, source: str, *, replace: bool = False) -> AdapterCard:
        check_name(name)
        with self._loading:
            if name in self._entries and not replace:
                raise AdapterExists(name)
            folder = self._to_peft(folder)
            number, loaded = self._read(folder)
            card = AdapterCard(name, source, number, loaded.rank, loaded.nbytes, int(time.time()))
            with self._lock:
                before = self._entries.get(name)
                self._entries[name] = RegisteredAdapter(card, folder, last_used=next(self._clock))
            if before is not None:
                self._retire(before)
            return card

    def folder_of(self, name: str) -> Path:
        with self._lock:
            entry = self._entries.get(name)
        if entry is None:
            raise NotFound(f"adapter {name!r} not found")
        return entry.folder

    def unload(self, name: str) -> None:
        with self._lock:
            entry = self._entries.pop(name, None)
        if entry is None:
            raise NotFound(f"adapter {name!r} not found")
        self._retire(entry)

    def has(self, name: str) -> bool:
        """Whether requests may name it."""
        return name in self._entries

    def lease(self, name: str, num_answers: int) -> "AdapterLease":
        """Keep the adapter's weights for so many answers; reads them again if they have left memory.

        Raises NotFound, and what `load` raises.
        """
        if (entry := self._lease_resident(name, num_answers)) is None:
            with self._loading:
                entry = self._lease_resident(name, num_answers) or self._read_again(name, num_answers)
        return AdapterLease(entry.card.number, num_answers, lambda: self._release(entry))

    def _lease_resident(self, name: str, num_answers: int) -> RegisteredAdapter | None:
        """Lease the adapter if its weights are in memory. Raises NotFound."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                raise NotFound(f"adapter {name!r} not found")
            entry.last_used = next(self._clock)
            if not entry.is_resident:
                return None
            entry.add_leases(num_answers)
            return entry

    def _read_again(self, name: str, num_answers: int) -> RegisteredAdapter:
        """Lease an adapter that had left memory. It gets a new number: its files may have changed."""
        entry = self._entries[name]
        number, loaded = self._read(entry.folder)
        with self._lock:
            entry.card = replace(entry.card, number=number, rank=loaded.rank, nbytes=loaded.nbytes)
            entry.is_resident = True
            entry.add_leases(num_answers)
        return entry

    def _read(self, folder: Path) -> tuple[int, LoadedAdapter]:
        """Read an adapter into memory, and let others go for it. Returns its number."""
        self._make_room(self._need_bytes(folder))
        number = next(self._numbers)
        return number, self._run_task(load_adapter, str(folder), number, self._max_rank)()

    def _make_room(self, need_bytes: int) -> None:
        """Let the least used adapters without requests go, until one more of this size fits."""
        free_bytes = self._free_bytes()
        while True:
            with self._lock:
                resident = [entry for entry in self._entries.values() if entry.is_resident]
                unused = [entry for entry in resident if not entry.num_leases]
                is_full = len(resident) >= self._max_adapters
                if not is_full and need_bytes <= free_bytes:
                    return
                if not unused:
                    break
                entry = min(unused, key=lambda each: each.last_used)
                entry.is_resident = False
            self._run_task(remove_adapter, entry.card.number)()
            free_bytes += entry.card.nbytes
        if is_full:
            recently_s = self._durations.first_end_s(entry.busy_since for entry in resident)
            raise overloaded(self._until_unused(), recently_s)
        need, have = format_size(need_bytes), format_size(max(0, free_bytes))
        raise refusal(f"needs {need} of memory, {have} are free: lower KV memory, or unload adapters")

    def _release(self, entry: RegisteredAdapter) -> None:
        with self._lock:
            entry.num_leases -= 1
            if not entry.num_leases:
                self._durations.record(time.monotonic() - entry.busy_since)
            is_unused = not (entry.num_leases or entry.is_listed)
        if is_unused:
            self._run_task(remove_adapter, entry.card.number)

    def _retire(self, entry: RegisteredAdapter) -> None:
        """Give the weights back as soon as no answer has them."""
        with self._lock:
            entry.is_listed = False
            is_unused = entry.is_resident and not entry.num_leases
        if is_unused:
            self._run_task(remove_adapter, entry.card.number)


class AdapterLease:
    """Keeps the weights of an adapter until the last output of each answer.

    number  of the adapter's load
    """

    def __init__(self, number: int, num_answers: int, release: Callable[[], None]) -> None:
        self.number = number
        self._num_answers, self._release = num_answers, release

    def cancel(self) -> None:
        """No answer was submitted."""
        for _ in range(self._num_answers):
            self._release()

    def watch(self, sinks: Sequence[OutputSink]) -> list[OutputSink]:
        """The sinks, each of which releases its answer's part of the lease with its last output."""
        return [LeasedSink(sink, self._release) for sink in sinks]


class LeasedSink:
    """An OutputSink that calls `release` after the last output."""

    def __init__(self, sink: OutputSink, release: Callable[[], None]) -> None:
        self._sink, self._release = sink, release

    def put(self, output: StepOutput) -> None:
        self._sink.put(output)
        if output.finish_reason or output.error:
            self._release()
