"""Times the start of an engine: random weights on the device, then the selection of the runner.

The time between two lines of the log shows what each part of the selection took. Reading weights from a disk
is not included.
"""

import logging
from collections.abc import Iterator
from itertools import pairwise

from scripts.gpu.device import memory_text
from scripts.gpu.figure import Figure
from scripts.gpu.log import SERVER_LOG, RecordList
from scripts.gpu.section import SectionRun

MAX_CHARS = 90


def measure_section(run: SectionRun) -> Iterator[Figure]:
    run.engines.free()
    records = RecordList()
    logger = logging.getLogger(SERVER_LOG)
    logger.addHandler(records)
    try:
        engine = run.engines.get()
    finally:
        logger.removeHandler(records)
    yield Figure("until ready", engine.build_s + engine.select_s, "s")
    yield Figure("random weights", engine.build_s, "s")
    yield Figure("selecting the runner", engine.select_s, "s", engine.selected.name)
    if text := memory_text(run.bench.device):
        yield Figure("VRAM, GB", text)
    yield Figure("KV cache", engine.runner.kv_capacity, "tokens", f"{engine.size.max_sequences} rows at most")
    for before, record in pairwise(records.records):
        yield Figure("log", record.created - before.created, "s", record.getMessage()[:MAX_CHARS])
