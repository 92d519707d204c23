"""The memory that was predicted beside what came of it, term by term: when the model is ready, and when all
rows have been taken for the first time.

Knows the plan and what was opened; tells nobody, keeps nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from checks import memory
from checks.machine import Machine
from checks.needs.terms import NAMED, Terms
from checks.plan import Plan
from inference.model.held import kept, weights_on
from inference.opening import Opened
from inference.resident import Resident, forget_peak, resident, written

LARGE = 50_000_000  # bytes of a step below which its factor says more of other things than of steps


@dataclass(frozen=True, slots=True)
class Entry:
    """Bytes of a term: disk, "KV a token", or of a device, such as "RAM weights"; "RAM" is all of it."""

    term: str
    predicted: int
    actual: int


class Ledger:
    """Made when the model is ready: of RAM, the peak is counted anew from then on."""

    def __init__(self, plan: Plan, machine: Machine, opened: Opened) -> None:
        assert plan.measure is not None
        self.plan, self.machine, self.opened, self.measure = plan, machine, opened, plan.measure
        self.predicted = memory.full(plan, machine)
        self.weights = weights_on(opened.loaded.model)
        self.ready = resident()
        forget_peak()
        for gpu in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(gpu)

    def loaded(self) -> list[Entry]:
        """What there is before any token."""
        files = self.plan.repository.files
        disk = sum((self.opened.folder / file.name).stat().st_size for file in files)
        found = [
            Entry("disk", sum(file.size for file in files), disk),
            Entry("KV a token", self.measure.token, self.opened.fitted.bytes_per_token),
        ]
        for name, terms in self.predicted.items():
            found += self.ram(terms) if name == "RAM" else self.gpu(name, terms)
        return found

    def ram(self, terms: Terms) -> Iterator[Entry]:
        weights = self.weights.get("cpu", 0)
        yield Entry("RAM weights", terms.weights, weights)
        yield Entry("RAM programs", terms.program, self.ready.all - weights)
        yield Entry("RAM", terms.program + terms.weights, self.ready.all)
        yield Entry("RAM loading", terms.loading, self.ready.peak)

    def gpu(self, name: str, terms: Terms) -> Iterator[Entry]:
        number = numbered(name)
        yield Entry(f"{name} weights", terms.weights, self.weights.get(f"cuda:{number}", 0))
        yield Entry(f"{name} kv", terms.kv, self.memory(f"cuda:{number}"))
        yield Entry(name, terms.program + terms.weights + terms.kv, self.taken(number))

    def served(self) -> list[Entry]:
        """What there is behind a full batch, for the tokens that have come so far."""
        now, found = resident(), list[Entry]()
        for name, terms in self.predicted.items():
            found += self.ram_served(terms, now) if name == "RAM" else self.gpu_served(name, terms)
        return found

    def ram_served(self, terms: Terms, now: Resident) -> Iterator[Entry]:
        kv, held = min(terms.kv, self.came()), self.memory("cpu")
        yield Entry("RAM kv", kv, held)
        yield Entry("RAM step", terms.step, max(0, now.peak - self.ready.all - held))
        yield Entry("RAM", terms.fixed + kv, now.peak)

    def gpu_served(self, name: str, terms: Terms) -> Iterator[Entry]:
        number = numbered(name)
        held = self.weights.get(f"cuda:{number}", 0) + self.memory(f"cuda:{number}")
        step = torch.cuda.max_memory_allocated(number) - held
        yield Entry(f"{name} step", terms.step, max(0, step))
        yield Entry(name, terms.serving, self.taken(number))

    def came(self) -> int:
        """Bytes that the tokens of all sequences so far would keep, were there room for all."""
        stats = self.opened.engine.stats()
        tokens = stats.prompt_tokens - stats.cached_tokens + stats.generated_tokens
        return self.measure.token * tokens + self.measure.row * self.plan.rows

    def memory(self, device: str) -> int:
        """Bytes for sequences on the device, on a CPU those that were written to."""
        tensors = [data for data in kept(self.opened.fitted.runner) if str(data.device) == device]
        if device == "cpu":
            return sum(written(data.data_ptr(), data.nbytes) for data in tensors)
        return sum(data.nbytes for data in tensors)

    def taken(self, gpu: int) -> int:
        """Bytes of a GPU's memory that were free when the machine was looked at."""
        return self.machine.gpus[gpu].free - torch.cuda.mem_get_info(gpu)[0]

    def shown(self) -> dict[str, float]:
        """What loading shows of this machine's overheads, by their names."""
        overhead, found = self.plan.overhead, dict[str, float]()
        for name in self.predicted:
            if name == "RAM":
                rest = self.ready.all - self.weights.get("cpu", 0) - overhead.program
                found["later"] = rest - self.measure.vocab * NAMED
            else:
                gpu = numbered(name)
                found["cuda"] = self.taken(gpu) - torch.cuda.memory_reserved(gpu)
        return found

    def factor(self, entries: Sequence[Entry]) -> dict[str, float]:
        """What a full step has shown: nothing where it was small."""
        steps = [item for item in entries if item.term.endswith(" step") and item.predicted > LARGE]
        largest = max(steps, key=lambda item: item.predicted, default=None)
        return {"step": self.plan.overhead.step * largest.actual / largest.predicted} if largest else {}


def numbered(name: str) -> int:
    """The number of a GPU's part."""
    return int(name.removeprefix("GPU") or 0)
