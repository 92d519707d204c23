"""Compares predicted with actual memory, term by term: when the model is ready, and after a full batch.

Reports each process of a model on several processes. Knows the memory plan of checks/ and the loaded engine,
and stands above both: checks/ may not import the engine. Prints nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checks.machine import Machine
from checks.memory.estimate import kv_bytes_of
from checks.memory.plan import Plan
from checks.memory.terms import DeviceTerms
from checks.resources import enough_memory
from inference.factory import LoadedEngine
from inference.model.kv_cost import KVCost
from inference.model.memory_usage import MemoryUsage

RAM, CPU = "RAM", "cpu"
KV_PER_TOKEN, KV_PER_ROW = "KV a token", "KV a row"


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """Predicted and actual bytes of a memory term.

    name  "disk"; KV_PER_TOKEN, followed by a window for the layers with it; KV_PER_ROW (the bytes of a row
          that do not grow with its tokens); a device and a term, such as "RAM weights"; or only a device for
          its total, such as "RAM"
    """

    name: str
    predicted: int
    actual: int


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """The predicted terms of one device of one process.

    rank          the process's rank
    gpu           the GPU's number; None for RAM
    ready_memory  the process's memory when the model was ready
    """

    name: str
    terms: DeviceTerms
    rank: int
    gpu: int | None
    ready_memory: MemoryUsage

    @property
    def device(self) -> str:
        return CPU if self.gpu is None else f"cuda:{self.gpu}"


class MemoryReport:
    """Predicted and actual memory of a loaded engine. Create it when the model is ready: it resets the peaks.

    The constructor and the methods raise ServerError when the engine has stopped.
    """

    def __init__(self, plan: Plan, machine: Machine, loaded_engine: LoadedEngine) -> None:
        assert plan.model_size is not None
        self.plan = plan
        self.machine = machine
        self.loaded_engine = loaded_engine
        self.model_size = plan.model_size
        self.predicted = enough_memory.full_batch_terms(plan, machine)
        self.gpus = [gpu_number(name) for name in self.predicted if name != RAM]
        self.ready_memory = loaded_engine.memory_in_use(self.gpus, reset_peaks=True)
        self.device_reports = list(self.split_by_device())

    def split_by_device(self) -> Iterator[DeviceReport]:
        for rank, usage in enumerate(self.ready_memory):
            rank_prefix = f"rank {rank} " if self.plan.num_shard > 1 else ""
            for name, terms in self.predicted.items():
                gpu = None if name == RAM else rank if rank_prefix else gpu_number(name)
                yield DeviceReport(f"{rank_prefix}{name}", terms, rank, gpu, usage)

    def terms_when_ready(self) -> list[MemoryTerm]:
        """The terms before the first token."""
        files, selected_runner = self.plan.repository.files, self.loaded_engine.selected_runner
        disk_bytes = sum((self.loaded_engine.folder / file.name).stat().st_size for file in files)
        memory_terms = [
            MemoryTerm("disk", sum(file.size for file in files), disk_bytes),
            *kv_cost_terms(self.model_size.kv_cost, selected_runner.kv_cost),
        ]
        for report in self.device_reports:
            memory_terms += (
                self.ram_terms(report) if report.gpu is None else self.vram_terms(report, report.gpu)
            )
        return memory_terms

    def ram_terms(self, report: DeviceReport) -> Iterator[MemoryTerm]:
        terms = report.terms
        usage = report.ready_memory.resident
        weights = report.ready_memory.weights.get(CPU, 0)
        adapters = report.ready_memory.adapters.get(CPU, 0)
        yield MemoryTerm(f"{report.name} weights", terms.weights, weights)
        yield from adapter_terms(report.name, terms.adapters, adapters)
        programs = terms.baseline + terms.draft_model
        yield MemoryTerm(f"{report.name} programs", programs, usage.total - weights - adapters)
        yield MemoryTerm(f"{report.name} ready", terms.when_ready, usage.total)
        yield MemoryTerm(f"{report.name} loading", terms.loading, usage.peak)

    def vram_terms(self, report: DeviceReport, gpu: int) -> Iterator[MemoryTerm]:
        terms, usage = report.terms, report.ready_memory
        yield MemoryTerm(f"{report.name} weights", terms.weights, usage.weights.get(report.device, 0))
        yield from adapter_terms(report.name, terms.adapters, usage.adapters.get(report.device, 0))
        yield MemoryTerm(f"{report.name} kv", terms.kv, usage.kv_cache.get(report.device, 0))
        yield MemoryTerm(f"{report.name} ready", terms.when_ready + terms.kv, self.gpu_bytes_used(usage, gpu))

    def terms_when_full(self) -> list[MemoryTerm]:
        """The terms after a full batch, with the KV cache of the tokens computed so far."""
        memory_now, memory_terms = self.loaded_engine.memory_in_use(self.gpus), list[MemoryTerm]()
        for report in self.device_reports:
            make_terms = self.ram_terms_when_full if report.gpu is None else self.vram_terms_when_full
            memory_terms += make_terms(report, memory_now[report.rank])
        return memory_terms

    def ram_terms_when_full(self, report: DeviceReport, memory_now: MemoryUsage) -> Iterator[MemoryTerm]:
        kv, kv_in_use = min(report.terms.kv, self.kv_bytes_touched()), memory_now.kv_cache.get(CPU, 0)
        peak = memory_now.resident.peak
        yield MemoryTerm(f"{report.name} kv", kv, kv_in_use)
        yield MemoryTerm(
            f"{report.name} step",
            report.terms.grammars + report.terms.step,
            max(0, peak - report.ready_memory.resident.total - kv_in_use),
        )
        yield MemoryTerm(report.name, report.terms.fixed + kv, peak)

    def vram_terms_when_full(self, report: DeviceReport, memory_now: MemoryUsage) -> Iterator[MemoryTerm]:
        assert report.gpu is not None
        by_term = (memory_now.weights, memory_now.adapters, memory_now.kv_cache)
        tensor_bytes = sum(sizes.get(report.device, 0) for sizes in by_term)
        yield MemoryTerm(
            f"{report.name} step", report.terms.step, max(0, memory_now.gpus[report.gpu].peak - tensor_bytes)
        )
        yield MemoryTerm(report.name, report.terms.serving, self.gpu_bytes_used(memory_now, report.gpu))

    def kv_bytes_touched(self) -> int:
        """KV bytes of the tokens ever written, and of all rows."""
        num_tokens = self.loaded_engine.engine.stats().kv_touched
        context = enough_memory.plan_budget(self.plan, self.machine).context
        return kv_bytes_of(self.plan, self.model_size, num_tokens, context)

    def gpu_bytes_used(self, usage: MemoryUsage, gpu: int) -> int:
        """Bytes of a GPU in use now that were free when the machine was inspected."""
        return self.machine.gpus[gpu].free - usage.gpus[gpu].free


def adapter_terms(device: str, predicted: int, actual: int) -> Iterator[MemoryTerm]:
    """The bytes of the adapters; nothing if there are none."""
    if predicted or actual:
        yield MemoryTerm(f"{device} adapters", predicted, actual)


def kv_cost_terms(predicted: KVCost, actual: KVCost) -> Iterator[MemoryTerm]:
    yield MemoryTerm(KV_PER_TOKEN, predicted.per_token, actual.per_token)
    predicted_windows, actual_windows = dict(predicted.windowed), dict(actual.windowed)
    for window in sorted(predicted_windows | actual_windows):
        name = f"{KV_PER_TOKEN} within a window of {window}"
        yield MemoryTerm(name, predicted_windows.get(window, 0), actual_windows.get(window, 0))
    if predicted.per_row or actual.per_row:
        yield MemoryTerm(KV_PER_ROW, predicted.per_row, actual.per_row)


def gpu_number(name: str) -> int:
    """The number of a GPU from its name, such as "GPU 1"."""
    return int(name.removeprefix("GPU") or 0)
