"""Prefaulted memory: matrices take it, and it is given back with them, as is the unused rest."""

import threading
from collections.abc import Iterator

import pytest
import torch

from inference.native import prefault
from inference.native.packed_matrix import PackedMatrix
from inference.native.prefault import HUGE, Arena
from inference.native.structs import NativeDtype
from inference.process.memory.rss import resident_memory

pytestmark = pytest.mark.system("linux")  # elsewhere no memory is prefaulted

SIZE = 64 << 20
SLACK = 8 << 20  # bytes that the process takes or frees meanwhile for other reasons


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    """An arena of SIZE bytes, all of them resident."""
    arena = Arena(SIZE)
    arena.fill(SIZE, threading.Event())
    monkeypatch.setattr(prefault, "_arenas", [arena])
    yield arena
    arena.close()


def test_memory_is_resident_before_it_is_used(filled: Arena) -> None:
    assert prefault.prefaulted_bytes() == SIZE
    before = resident_memory().own
    memory = prefault.allocate_prefaulted(SIZE // 2)
    assert memory is not None
    torch.frombuffer(memory, dtype=torch.uint8).fill_(7)
    assert resident_memory().own - before < SLACK
    assert prefault.prefaulted_bytes() == SIZE // 2


def test_a_matrix_takes_prefaulted_memory_and_frees_it(filled: Arena) -> None:
    weight = torch.randn(1024, 2048)
    matrix = PackedMatrix.pack(weight, NativeDtype.F32)
    assert prefault.prefaulted_bytes() == SIZE - weight.nbytes
    assert torch.equal(matrix.unpack(), weight)
    before = resident_memory().own
    del matrix
    assert before - resident_memory().own > weight.nbytes - SLACK


def test_a_view_keeps_the_memory_of_its_matrix(filled: Arena) -> None:
    matrix = PackedMatrix.pack(torch.ones(1024, 2048), NativeDtype.F32)
    tail = matrix.values.view(torch.float32)[-4:]
    del matrix
    assert tail.tolist() == [1, 1, 1, 1]


def test_sizes_that_are_too_large_or_too_small_use_other_memory(filled: Arena) -> None:
    assert prefault.allocate_prefaulted(2 * SIZE) is None
    assert prefault.allocate_prefaulted(16) is None
    assert torch.equal(PackedMatrix.pack(torch.ones(16, 32), NativeDtype.F32).unpack(), torch.ones(16, 32))
    assert prefault.prefaulted_bytes() == SIZE


def test_without_prefault_leaves_the_arena_unused(filled: Arena) -> None:
    with prefault.without_prefault():
        assert prefault.allocate_prefaulted(1 << 20) is None
    assert prefault.prefaulted_bytes() == SIZE
    assert prefault.allocate_prefaulted(1 << 20) is not None


def test_release_frees_the_unused_rest(filled: Arena) -> None:
    matrix = PackedMatrix.pack(torch.ones(1024, 2048), NativeDtype.F32)
    before = resident_memory().own
    prefault.release()
    assert before - resident_memory().own > SIZE - matrix.nbytes - SLACK
    assert prefault.prefaulted_bytes() == 0 and prefault.allocate_prefaulted(1 << 20) is None
    assert bool((matrix.unpack() == 1).all())


def test_filling_ends_at_its_limit_and_when_it_is_stopped(filled: Arena) -> None:
    other, stopped = Arena(SIZE), threading.Event()
    other.fill(3 * HUGE, stopped)
    assert other.prefaulted_end - other.start == 3 * HUGE
    stopped.set()
    other.fill(SIZE, stopped)
    assert other.prefaulted_end - other.start == 3 * HUGE
    other.close()


def test_filling_ends_with_its_context() -> None:
    with prefault.prefaulting(SIZE, SIZE):
        assert prefault.allocate_prefaulted(1 << 20) is None
    assert "prefault" not in [each.name for each in threading.enumerate()]
    assert prefault.allocate_prefaulted(1 << 20) is not None
    prefault.release()


def test_zero_bytes_prefault_nothing() -> None:
    with prefault.prefaulting(0, SIZE):
        pass
    assert prefault.prefaulted_bytes() == 0
