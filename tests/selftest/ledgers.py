"""A tiny model planned and opened, on this process or shared, for what is predicted to be held against it."""

from pathlib import Path

from checks import memory
from checks.machine import Machine
from checks.machine.overhead import known
from checks.plan import Asked, Plan, plan
from checks.source.find import in_folder
from inference.opening import Opened, open_engine
from selftest.ledger import Entry

ROWS, CONTEXT = 3, 64
MACHINE = Machine(disk=10**12, ram=10**11, gpus=(), bfloat16=frozenset(), taken="")


def planned_in(folder: Path, ranks: int = 1) -> Plan:
    asked = Asked(
        device="cpu",
        dtype="float32",
        bfloat16=frozenset(),
        context=CONTEXT,
        rows=ROWS,
        kv=0,
        code=False,
        shards=ranks,
        overhead=known("cpu"),
    )
    return plan(in_folder("tiny", folder, code=False), asked)


def opened_as(planned: Plan) -> Opened:
    assert planned.repository.folder is not None
    share = memory.budget(planned, MACHINE)
    return open_engine(
        planned.repository.folder,
        dtype="float32",
        device="cpu",
        context=share.context,
        max_rows=ROWS,
        kv_bytes=share.kv,
        max_batch_tokens=64,
        max_queued_tokens=1000,
        trust_remote_code=False,
        ranks=planned.shards,
    )


def by_term(entries: list[Entry]) -> dict[str, Entry]:
    return {entry.term: entry for entry in entries}
