"""The memory plan of a tiny model and its loaded engine, in one process or several, for memory reports."""

from pathlib import Path

from checks.machine import Machine
from checks.memory.overhead import measure_overhead
from checks.memory.plan import Plan, make_plan
from checks.memory.plan_request import PlanRequest
from checks.resources import enough_memory
from hub.resolve import from_folder
from inference.factory import LoadedEngine, open_engine
from selftest.memory_report import MemoryTerm
from settings.groups import EngineSettings, ModelSettings

ROWS, CONTEXT = 3, 64
MACHINE = Machine(disk=10**12, ram=10**11, gpus=(), bfloat16_devices=frozenset(), port_error="")


def plan_in_folder(folder: Path, ranks: int = 1) -> Plan:
    request = PlanRequest(
        device="cpu",
        dtype="float32",
        bfloat16_devices=frozenset(),
        context=CONTEXT,
        max_sequences=ROWS,
        kv_memory_bytes=0,
        trust_remote_code=False,
        num_shard=ranks,
        overhead=measure_overhead(),
    )
    return make_plan(from_folder("tiny", folder), request)


def open_plan(planned: Plan) -> LoadedEngine:
    assert planned.repository.folder is not None
    share = enough_memory.plan_budget(planned, MACHINE)
    return open_engine(
        planned.repository.folder,
        ModelSettings(dtype="float32", device="cpu", num_shard=planned.num_shard),
        EngineSettings(
            context=share.context,
            max_sequences=ROWS,
            kv_memory_bytes=share.kv_memory_bytes,
            max_batch_tokens=64,
            max_queued_tokens=1000,
        ),
    )


def by_term(entries: list[MemoryTerm]) -> dict[str, MemoryTerm]:
    return {entry.name: entry for entry in entries}
