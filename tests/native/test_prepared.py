"""Memory that is made ready ahead: matrices take it, and it goes back with them; so does what is left."""

import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from inference.native import prepared
from inference.native.matrix import Matrix
from inference.native.prepared import HUGE, Room
from inference.native.structs import Kind
from inference.resident import resident

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such room")

SIZE = 64 << 20
SLACK = 8 << 20  # what else a process takes or frees meanwhile


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """A room of SIZE bytes, all of which have memory."""
    made = Room(SIZE)
    made.fill(SIZE, threading.Event())
    monkeypatch.setattr(prepared, "_rooms", [made])
    yield made
    made.close()


def test_memory_is_there_before_anybody_takes_it(filled: Room) -> None:
    assert prepared.ready() == SIZE
    there = resident().own
    piece = prepared.taken(SIZE // 2)
    assert piece is not None
    torch.frombuffer(piece, dtype=torch.uint8).fill_(7)
    assert resident().own - there < SLACK
    assert prepared.ready() == SIZE // 2


def test_a_matrix_takes_its_memory_and_gives_it_back(filled: Room) -> None:
    weight = torch.randn(1024, 2048)
    matrix = Matrix.pack(weight, Kind.F32)
    assert prepared.ready() == SIZE - weight.nbytes
    assert torch.equal(matrix.unpack(), weight)
    there = resident().own
    del matrix
    assert there - resident().own > weight.nbytes - SLACK


def test_who_holds_a_part_holds_the_memory(filled: Room) -> None:
    matrix = Matrix.pack(torch.ones(1024, 2048), Kind.F32)
    part = matrix.values.view(torch.float32)[-4:]
    del matrix
    assert part.tolist() == [1, 1, 1, 1]


def test_what_does_not_fit_or_is_small_comes_from_elsewhere(filled: Room) -> None:
    assert prepared.taken(2 * SIZE) is None
    assert prepared.taken(16) is None
    assert torch.equal(Matrix.pack(torch.ones(16, 32), Kind.F32).unpack(), torch.ones(16, 32))
    assert prepared.ready() == SIZE


def test_what_is_spared_is_there_afterwards(filled: Room) -> None:
    with prepared.spared():
        assert prepared.taken(1 << 20) is None
    assert prepared.ready() == SIZE
    assert prepared.taken(1 << 20) is not None


def test_what_nobody_took_goes_back(filled: Room) -> None:
    matrix = Matrix.pack(torch.ones(1024, 2048), Kind.F32)
    there = resident().own
    prepared.give_back()
    assert there - resident().own > SIZE - matrix.nbytes - SLACK
    assert prepared.ready() == 0 and prepared.taken(1 << 20) is None
    assert bool((matrix.unpack() == 1).all())


def test_no_more_is_filled_than_may_be_and_none_once_it_is_stopped(filled: Room) -> None:
    other, stopped = Room(SIZE), threading.Event()
    other.fill(3 * HUGE, stopped)
    assert other.filled - other.start == 3 * HUGE
    stopped.set()
    other.fill(SIZE, stopped)
    assert other.filled - other.start == 3 * HUGE
    other.close()


def test_filling_ends_with_what_it_goes_along_with() -> None:
    with prepared.filling(SIZE, SIZE):
        assert prepared.taken(1 << 20) is None
    assert threading.active_count() == len([each for each in threading.enumerate() if each.name != "room"])
    assert prepared.taken(1 << 20) is not None
    prepared.give_back()


def test_nothing_is_made_ready_for_nothing() -> None:
    with prepared.filling(0, SIZE):
        pass
    assert prepared.ready() == 0
