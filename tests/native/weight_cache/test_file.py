"""A file of packed weights is complete or absent, has the bytes of the memory, and is never written to."""

import faulthandler
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import FLOAT_SOURCES, NativeDtype
from inference.native.weight_cache import file as weight_file
from inference.native.weight_cache.file import (
    PAGE,
    PREFIX,
    BadWeightFile,
    MappedMatrix,
    WeightFile,
    map_weight_file,
    read_about,
    write_weight_file,
)
from inference.process.memory.mmap_release import is_mapped

ABOUT = {"variant": {"dtype": "bfloat16"}}
SHAPE = (100, 70)  # neither whole panels nor whole groups


def tensors() -> dict[str, Tensor]:
    return {
        "norm": torch.arange(5).bfloat16(),
        "scale": torch.tensor(0.5),
        "empty": torch.empty(0, 3),
        "rows": torch.arange(6, dtype=torch.int64).view(2, 3).T,
    }


def matrices() -> dict[str, list[PackedMatrix]]:
    return {
        dtype.name: [PackedMatrix.pack(torch.randn(SHAPE), dtype) for _ in range(2)]
        for dtype in FLOAT_SOURCES
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "weights.packed"
    write_weight_file(path, ABOUT, tensors(), matrices())
    return path


def mapped_matrices(file: WeightFile, bias: Tensor | None = None) -> dict[str, list[MappedMatrix]]:
    return {
        name: [MappedMatrix(file, place, bias) for place in places] for name, places in file.matrices.items()
    }


def test_tensors_and_matrices_come_back_with_every_bit(tmp_path: Path) -> None:
    path, stacks = tmp_path / "weights.packed", matrices()
    write_weight_file(path, ABOUT, tensors(), stacks)
    file = map_weight_file(path)
    assert file.about == read_about(path) == ABOUT
    plain = file.read_tensors()
    assert all(torch.equal(plain[name], right) for name, right in tensors().items())
    x, bias = torch.randn(3, SHAPE[1]), torch.randn(SHAPE[0])
    for name, stack in mapped_matrices(file).items():
        for mapped, right in zip(stack, stacks[name], strict=True):
            assert torch.equal(mapped.unpack(), right.unpack())
            assert torch.equal(mapped.linear(x), right.linear(x))
            assert mapped.nbytes == right.nbytes
    (mapped, _) = mapped_matrices(file, bias)["F32"]
    torch.testing.assert_close(mapped.linear(x), stacks["F32"][0].linear(x) + bias)


def test_the_memory_is_mapped_read_only_and_shared(path: Path) -> None:
    memory = map_weight_file(path).memory
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]
    assert [line.split()[1] for line in lines] == ["r--s"]
    assert memory.data_ptr() % PAGE == 0


def test_a_write_to_the_memory_ends_the_process_and_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    if not (child := os.fork()):
        faulthandler.disable()
        map_weight_file(path).memory[0] = 1
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV
    assert path.read_bytes() == before


def test_only_the_owner_can_read_a_file(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def flip_weight(content: bytearray) -> None:
    content[-PAGE] ^= 1


def flip_header(content: bytearray) -> None:
    content[PREFIX.size + 2] ^= 1


def cut_weights(content: bytearray) -> None:
    del content[-PAGE:]


def cut_header(content: bytearray) -> None:
    del content[PREFIX.size + 9 :]


def append_page(content: bytearray) -> None:
    content += bytes(PAGE)


def replace_magic(content: bytearray) -> None:
    content[:8] = b"GGUF\3\0\0\0"


def delete_content(content: bytearray) -> None:
    content.clear()


DAMAGES = (flip_weight, flip_header, cut_weights, cut_header, append_page, replace_magic, delete_content)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(path: Path, damage: Callable[[bytearray], None]) -> None:
    content = bytearray(path.read_bytes())
    damage(content)
    path.write_bytes(content)
    with pytest.raises(BadWeightFile):
        map_weight_file(path)


def test_a_write_that_fails_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(weight_file, "write_block", raise_error)
    before = path.read_bytes()
    with pytest.raises(OSError, match="no space"):
        write_weight_file(path, ABOUT, tensors(), matrices())
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if os.getuid() == 0:  # root's files are trusted
        os.chown(path, 12345, -1)


def writable_by_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o622)


def a_pipe(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def a_link(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.symlink_to(path.rename(path.with_name("other")))


@pytest.mark.parametrize("become", [of_another_user, writable_by_others, a_pipe, a_link])
def test_a_file_that_another_user_may_have_written_is_not_used(
    path: Path, become: Callable[[Path, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    become(path, monkeypatch)
    for read in (map_weight_file, read_about):
        with pytest.raises((BadWeightFile, OSError)):
            read(path)


def test_a_link_in_place_of_the_unfinished_file_is_not_followed(path: Path) -> None:
    target = path.with_name("document")
    target.write_text("kept")
    path.with_name(f".{path.name}.{os.getpid()}").symlink_to(target)
    write_weight_file(path, ABOUT, tensors(), matrices())
    assert target.read_text() == "kept" and read_about(path) == ABOUT


def test_matrices_of_another_layout_are_refused(path: Path) -> None:
    file = map_weight_file(path)
    place = dict(file.matrices[NativeDtype.INT8.name][0], outputs=SHAPE[0] * 2)
    with pytest.raises(AssertionError, match="layout"):
        MappedMatrix(file, place, None)


def test_the_memory_of_written_matrices_is_that_of_the_file(tmp_path: Path) -> None:
    path, matrix = tmp_path / "weights.packed", PackedMatrix.pack(torch.randn(600, 2000), NativeDtype.F32)
    address, values, x = matrix.values.data_ptr(), matrix.values.clone(), torch.randn(3, 2000)
    output = matrix.linear(x)
    assert not is_mapped(path)
    write_weight_file(path, ABOUT, {}, {"weight": [matrix]})
    assert is_mapped(path) and private_bytes(address) <= PAGE, "its last bytes"
    assert matrix.values.data_ptr() == address and torch.equal(matrix.values, values)
    assert torch.equal(matrix.linear(x), output)
    matrix.values[0] += 1  # its own copy of the page
    ((mapped,),) = mapped_matrices(map_weight_file(path)).values()
    assert torch.equal(mapped.values, values)


def private_bytes(address: int) -> int:
    """Bytes that only this process has of the mapping that begins at `address`."""
    mapping = Path("/proc/self/smaps").read_text().partition(f"\n{address:x}-")[2]
    return int(mapping.partition("Anonymous:")[2].split()[0]) * 1024


def test_memory_that_shares_its_pages_with_others_stays(tmp_path: Path) -> None:
    path, stacks = tmp_path / "weights.packed", matrices()
    write_weight_file(path, ABOUT, tensors(), stacks)
    assert not is_mapped(path)
