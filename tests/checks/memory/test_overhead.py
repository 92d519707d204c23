"""The overhead of this process equals the kernel's count, without memory prefaulted for weights."""

import threading

import pytest

from checks.memory.overhead import DEFAULT_OVERHEAD, measure_overhead
from inference.native import prefault
from inference.native.prefault import Arena
from inference.process.memory.rss import resident_memory


def test_program_memory_is_measured_and_the_rest_is_constant() -> None:
    overhead = measure_overhead()
    assert (overhead.runtime, overhead.cuda) == (DEFAULT_OVERHEAD.runtime, DEFAULT_OVERHEAD.cuda)
    assert abs(overhead.baseline - resident_memory().total) < 50_000_000
    assert 0 < overhead.private <= overhead.baseline


@pytest.mark.system("linux")  # elsewhere no memory is prefaulted
def test_prefaulted_memory_does_not_count_as_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    size, before = 64 << 20, measure_overhead()
    arena = Arena(size)
    arena.fill(size, threading.Event())
    monkeypatch.setattr(prefault, "_arenas", [arena])
    now = measure_overhead()
    arena.close()
    assert (before.prefaulted, now.prefaulted) == (0, size)
    assert abs(now.baseline - before.baseline) < size / 4
    assert now.private - before.private > size * 3 / 4
