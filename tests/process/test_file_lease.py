"""Mapped weights survive programs that truncate, overwrite, replace or remove their file."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import NativeDtype
from inference.native.weight_cache.file import map_bytes, write_weight_file
from inference.process import file_lease
from inference.process.file_lease import lease_mapped
from inference.process.memory.mmap_release import mappings_of

pytestmark = pytest.mark.system("linux")  # others have no leases

CHUNK = 1 << 16
SIZE = 3 * CHUNK + 5000  # several copies, and no whole page


@pytest.fixture(autouse=True)
def copy_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lease, "COPIED_AT_ONCE", CHUNK)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"\x07" * SIZE)
    return path


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def overwrite(path: Path) -> None:
    path.write_bytes(b"\x09" * SIZE)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"\x09" * SIZE)
    other.rename(path)


def map_privately(path: Path) -> Tensor:
    """As libraries map safetensors and GGUF files."""
    tensor = torch.from_file(str(path), shared=False, size=SIZE, dtype=torch.uint8)
    lease_mapped([tensor])
    return tensor


@pytest.mark.parametrize("change", [truncate, overwrite, replace, Path.unlink])
@pytest.mark.parametrize("map_file", [map_bytes, map_privately])
def test_mapped_weights_survive_a_change_of_their_file(
    map_file: Callable[[Path], Tensor], change: Callable[[Path], None], path: Path
) -> None:
    weights = map_file(path)
    change(path)
    assert int(weights.min()) == int(weights.max()) == 7


def test_weights_that_were_just_written_survive_a_change_of_their_file(tmp_path: Path) -> None:
    path, matrix = tmp_path / "weights.packed", PackedMatrix.pack(torch.ones(600, 2000), NativeDtype.F32)
    write_weight_file(path, {}, {}, {"ones": [matrix]})
    assert mappings_of(path)
    truncate(path)
    assert not mappings_of(path)
    assert torch.equal(matrix.unpack(), torch.ones(600, 2000))


def test_a_second_program_that_maps_the_file_reads_it_as_it_was(path: Path) -> None:
    first, second = map_bytes(path), map_bytes(path)
    overwrite(path)
    assert int(first.max()) == int(second.max()) == 7


def test_unmapped_weights_have_no_lease(path: Path) -> None:
    def leases() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "file-lease"]

    before = leases()
    weights = map_bytes(path)
    (lease,) = [thread for thread in leases() if thread not in before]
    del weights
    lease.join(60)
    assert not lease.is_alive()


def test_a_file_that_is_being_written_to_has_no_lease(path: Path) -> None:
    with path.open("r+b"):
        assert file_lease.lease_file(path, [(0, SIZE)]) is None
