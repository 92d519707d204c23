"""The memory that was predicted beside what came of it, term by term: when the model is ready, and when all
rows have been taken for the first time. Of a model that several processes share, of each of them.

Knows the plan and what was opened; tells nobody, keeps nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks import memory
from checks.machine import Machine
from checks.needs.terms import NAMED, Terms
from checks.plan import Plan
from inference.model.held import Held
from inference.opening import Opened

LARGE = 50_000_000  # bytes of a step below which its factor says more of other things than of steps
RAM, CPU = "RAM", "cpu"
TOKEN, ROW = "KV a token", "KV a row"


@dataclass(frozen=True, slots=True)
class Entry:
    """Bytes of a term: disk, TOKEN, ROW (what one keeps besides its tokens), or of a device, such as "RAM
    weights"; "RAM" is all of it."""

    term: str
    predicted: int
    actual: int


@dataclass(frozen=True, slots=True)
class Part:
    """What is on one device of one process. gpu: its number, None for RAM. ready: what the process had when
    the model was ready."""

    name: str
    terms: Terms
    rank: int
    gpu: int | None
    ready: Held

    @property
    def device(self) -> str:
        return CPU if self.gpu is None else f"cuda:{self.gpu}"


class Ledger:
    """Made when the model is ready: the peaks are counted anew from then on. Raises ServerError where the
    engine takes no more, as do its methods."""

    def __init__(self, plan: Plan, machine: Machine, opened: Opened) -> None:
        assert plan.measure is not None
        self.plan, self.machine, self.opened, self.measure = plan, machine, opened, plan.measure
        self.predicted = memory.full(plan, machine)
        self.gpus = [numbered(name) for name in self.predicted if name != RAM]
        self.ready = opened.held(self.gpus, afresh=True)
        self.parts = list(self.parted())

    def parted(self) -> Iterator[Part]:
        for rank, held in enumerate(self.ready):
            shared = f"rank {rank} " if self.plan.shards > 1 else ""
            for name, terms in self.predicted.items():
                gpu = None if name == RAM else rank if shared else numbered(name)
                yield Part(f"{shared}{name}", terms, rank, gpu, held)

    def loaded(self) -> list[Entry]:
        """What there is before any token."""
        files, fitted = self.plan.repository.files, self.opened.fitted
        disk = sum((self.opened.folder / file.name).stat().st_size for file in files)
        found = [
            Entry("disk", sum(file.size for file in files), disk),
            Entry(TOKEN, self.measure.token, fitted.bytes_per_token),
        ]
        if self.measure.row or fitted.bytes_per_row:
            found.append(Entry(ROW, self.measure.row, fitted.bytes_per_row))
        for part in self.parts:
            found += self.ram(part) if part.gpu is None else self.vram(part, part.gpu)
        return found

    def ram(self, part: Part) -> Iterator[Entry]:
        terms, held, weights = part.terms, part.ready.resident, part.ready.weights.get(CPU, 0)
        yield Entry(f"{part.name} weights", terms.weights, weights)
        yield Entry(f"{part.name} programs", terms.program, held.all - weights)
        yield Entry(f"{part.name} ready", terms.program + terms.weights, held.all)
        yield Entry(f"{part.name} loading", terms.loading, held.peak)

    def vram(self, part: Part, gpu: int) -> Iterator[Entry]:
        terms, held = part.terms, part.ready
        yield Entry(f"{part.name} weights", terms.weights, held.weights.get(part.device, 0))
        yield Entry(f"{part.name} kv", terms.kv, held.kept.get(part.device, 0))
        yield Entry(f"{part.name} ready", terms.program + terms.weights + terms.kv, self.taken(held, gpu))

    def served(self) -> list[Entry]:
        """What there is behind a full batch, for the tokens that have come so far."""
        now, found = self.opened.held(self.gpus), list[Entry]()
        for part in self.parts:
            of = self.ram_served if part.gpu is None else self.vram_served
            found += of(part, now[part.rank])
        return found

    def ram_served(self, part: Part, now: Held) -> Iterator[Entry]:
        kv, held = min(part.terms.kv, self.came()), now.kept.get(CPU, 0)
        peak = now.resident.peak
        yield Entry(f"{part.name} kv", kv, held)
        yield Entry(f"{part.name} step", part.terms.step, max(0, peak - part.ready.resident.all - held))
        yield Entry(part.name, part.terms.fixed + kv, peak)

    def vram_served(self, part: Part, now: Held) -> Iterator[Entry]:
        assert part.gpu is not None
        held = now.weights.get(part.device, 0) + now.kept.get(part.device, 0)
        yield Entry(f"{part.name} step", part.terms.step, max(0, now.gpus[part.gpu].most - held))
        yield Entry(part.name, part.terms.serving, self.taken(now, part.gpu))

    def came(self) -> int:
        """Bytes of the tokens that have had a place so far, and of all rows."""
        tokens = self.opened.engine.stats().touched
        return self.measure.token * tokens + self.measure.row * self.plan.rows

    def taken(self, held: Held, gpu: int) -> int:
        """Bytes of a GPU's memory that were free when the machine was looked at."""
        return self.machine.gpus[gpu].free - held.gpus[gpu].free

    def shown(self) -> dict[str, float]:
        """What loading shows of this machine's overheads, by their names."""
        found = dict[str, float]()
        for part in self.parts:
            held = part.ready
            if part.gpu is None:
                rest = held.resident.all - held.weights.get(CPU, 0) - self.plan.overhead.program
                found["later"] = rest - self.measure.vocab * NAMED
            else:
                found["cuda"] = self.taken(held, part.gpu) - held.gpus[part.gpu].reserved
        return found

    def factor(self, entries: Sequence[Entry]) -> dict[str, float]:
        """What a full step has shown: nothing where it was small."""
        steps = [item for item in entries if item.term.endswith(" step") and item.predicted > LARGE]
        largest = max(steps, key=lambda item: item.predicted, default=None)
        return {"step": self.plan.overhead.step * largest.actual / largest.predicted} if largest else {}


def numbered(name: str) -> int:
    """The number of a GPU's part."""
    return int(name.removeprefix("GPU") or 0)
