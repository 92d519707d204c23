"""WeightFile: the packed matrices and the other tensors of a model in one file, mapped read-only.

The file begins with PREFIX and a JSON header; then follow the bytes of each matrix and tensor, as they are in
memory, from multiples of PAGE on. A file is complete or absent: it is written under another name, then
renamed. Knows native matrices and bytes; no models.
"""

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from inference.native.packed_matrix import PackedMatrix, matrix_sizes
from inference.native.prefault import array_type, round_up
from inference.native.structs import NativeDtype
from inference.native.weight_cache.replace_memory import replace_memory
from inference.process.cache_folder import UntrustedFile, open_own
from inference.process.file_lease import lease_file, lease_mapped

MAGIC = b"HEARTHW1"  # changes with the layout
# MAGIC, bytes of the header, SHA-256 of the header, SHA-256 of the sums of all pages after it
PREFIX = struct.Struct("<8sQ32s32s")
PAGE = 4096  # bytes, also the largest alignment that a matrix needs
WORD = np.dtype("<u8")
SUMMED_AT_ONCE = 1 << 26  # bytes
WRITTEN_AT_ONCE = 1 << 24  # bytes
MAX_HEADER_BYTES = 1 << 28
OWNER_ONLY = 0o600


class BadWeightFile(Exception):
    """Why a file cannot be used: it is foreign, truncated or was changed."""


class MappedMatrix(PackedMatrix):
    """A matrix whose values and scales are in a WeightFile. Writing to them ends the process."""

    def __init__(self, file: "WeightFile", place: Mapping[str, Any], bias: Tensor | None) -> None:
        values, scales = (file.bytes_at(*place[name]) for name in ("values", "scales"))
        dtype = NativeDtype(place["dtype"])
        shape = place["outputs"], place["inputs"]
        assert (values.nbytes, scales.nbytes) == matrix_sizes(dtype, *shape), "the library's own layout"
        super().__init__(*shape, dtype, bias, values, scales)
        self.file = file


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A mapped file.

    about     what its writer noted, JSON
    tensors   by name: dtype, shape and place of the plain tensors
    matrices  by name: the places of a weight's matrices, several for stacked experts
    memory    the bytes of the file; the mapping lives as long as a tensor of it
    """

    about: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Any]]
    matrices: Mapping[str, Sequence[Mapping[str, Any]]]
    memory: Tensor

    def bytes_at(self, offset: int, size: int) -> Tensor:
        return self.memory[offset : offset + size]

    def read_tensors(self) -> dict[str, Tensor]:
        """Copies of the plain tensors, by name."""
        return {name: self.read_tensor(**entry) for name, entry in self.tensors.items()}

    def read_tensor(self, dtype: str, shape: Sequence[int], place: Sequence[int]) -> Tensor:
        return self.bytes_at(*place).clone().view(getattr(torch, dtype)).view(list(shape))


def write_weight_file(
    path: Path,
    about: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    matrices: Mapping[str, Sequence[PackedMatrix]],
) -> None:
    """Write a file that only its owner can read, or leave none. Raises OSError.

    The memory of the matrices is then that of the file, see replace_memory.
    """
    header, blocks = lay_out(about, tensors, matrices)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # of an earlier process with this id, or a link of another user
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        with open(descriptor, "wb") as file, temporary.open("rb") as readable:
            offsets = write_content(file, header, blocks)
            os.fsync(file.fileno())
            temporary.replace(path)
            places = list(zip(blocks, offsets, strict=True))
            replace_memory(readable.fileno(), places[len(tensors) :])
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    lease_mapped(blocks[len(tensors) :])


def write_content(file: Any, header: bytes, blocks: Sequence[Tensor]) -> list[int]:
    """Write the blocks, then what is before them; returns where each block begins."""
    file.truncate(data_offset(header))
    file.seek(0, os.SEEK_END)
    sums, offsets = hashlib.sha256(), list[int]()
    for block in blocks:
        offsets.append(file.tell())
        write_block(file, block)
        sums.update(page_sums(block))
    file.seek(0)
    file.write(PREFIX.pack(MAGIC, len(header), hashlib.sha256(header).digest(), sums.digest()))
    file.write(header)
    file.flush()
    return offsets


def lay_out(
    about: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    matrices: Mapping[str, Sequence[PackedMatrix]],
) -> tuple[bytes, list[Tensor]]:
    """The header of a file, and its blocks of bytes (uint8), in the order of the file.

    Places in the header count from the end of the header's last page.
    """
    blocks: list[Tensor] = []
    end = 0

    def place(block: Tensor) -> tuple[int, int]:
        nonlocal end
        blocks.append(block)
        start, end = end, end + round_up(block.nbytes, PAGE)
        return start, block.nbytes

    tensor_entries = {
        name: {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "place": place(tensor.detach().contiguous().view(-1).view(torch.uint8)),
        }
        for name, tensor in tensors.items()
    }
    matrix_entries = {
        name: [
            {
                "dtype": int(matrix.dtype),
                "outputs": matrix.outputs,
                "inputs": matrix.inputs,
                "values": place(matrix.values),
                "scales": place(matrix.scales),
            }
            for matrix in stack
        ]
        for name, stack in matrices.items()
    }
    entries = {"about": about, "tensors": tensor_entries, "matrices": matrix_entries, "data_bytes": end}
    return json.dumps(entries).encode(), blocks


def data_offset(header: bytes) -> int:
    return round_up(PREFIX.size + len(header), PAGE)


def write_block(file: Any, block: Tensor) -> None:
    """Append a block, padded to whole pages."""
    values = memoryview(block.numpy())  # type: ignore[arg-type]
    for start in range(0, len(values), WRITTEN_AT_ONCE):
        file.write(values[start : start + WRITTEN_AT_ONCE])
    file.write(bytes(-len(values) % PAGE))


def page_sums(block: Tensor) -> bytes:
    """The sums, modulo 2^64, of the words of each page; the last page is padded with zeros.

    Reading memory takes longer than this. It detects damage; not who wants to deceive: the file's owner can.
    """
    return b"".join(map(sum_pages, split_block(block)))


def split_block(block: Tensor) -> Iterator[Tensor]:
    return (block[start : start + SUMMED_AT_ONCE] for start in range(0, block.nbytes, SUMMED_AT_ONCE))


def sum_pages(block: Tensor) -> bytes:
    values = block.numpy()
    num_full = len(values) // PAGE * PAGE
    sums = values[:num_full].view(WORD).reshape(-1, PAGE // WORD.itemsize).sum(1)
    if num_full == len(values):
        return sums.tobytes()
    last = np.zeros(PAGE, dtype=np.uint8)
    last[: len(values) - num_full] = values[num_full:]
    return sums.tobytes() + last.view(WORD).sum().tobytes()


def map_weight_file(path: Path) -> WeightFile:
    """Map a file and verify it, which reads all of it. Raises BadWeightFile, and OSError."""
    memory = map_bytes(path)
    prefix = memory[: PREFIX.size].numpy().tobytes()
    size, sums = read_prefix(prefix)
    header = memory[PREFIX.size : PREFIX.size + size].numpy().tobytes()
    entries = parse_header(prefix, header)
    data = memory[data_offset(header) :]
    if data.nbytes != entries["data_bytes"]:
        raise BadWeightFile(f"it has {data.nbytes} bytes of weights instead of {entries['data_bytes']}")
    if hashlib.sha256(page_sums(data)).digest() != sums:
        raise BadWeightFile("its weights were changed")
    return WeightFile(entries["about"], entries["tensors"], entries["matrices"], data)


def map_bytes(path: Path) -> Tensor:
    """The bytes of a file, mapped read-only and shared with other processes. Raises BadWeightFile."""
    with open_weights(path) as file:
        if os.fstat(file.fileno()).st_size < PREFIX.size:
            raise BadWeightFile("it is truncated")
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    address = np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    lease = lease_file(path, [(address, address + len(mapping))])

    def close() -> None:
        mapping.close()
        if lease:
            lease.close()

    # As a ctypes array, because torch warns of buffers that cannot be written to. It keeps the mapping alive.
    array = array_type(len(mapping), close).from_address(address)
    return torch.frombuffer(array, dtype=torch.uint8)


def open_weights(path: Path) -> BinaryIO:
    """A file of this user: another one's weights would answer in place of the model's.

    Raises BadWeightFile, and OSError.
    """
    try:
        return open_own(path)
    except UntrustedFile as error:
        raise BadWeightFile(str(error)) from None


def read_about(path: Path) -> Mapping[str, Any]:
    """What the writer noted. Raises as read_header."""
    return dict(read_header(path)["about"])


def read_header(path: Path) -> dict[str, Any]:
    """The entries of a file; does not verify its weights. Raises BadWeightFile, and OSError."""
    with open_weights(path) as file:
        prefix = file.read(PREFIX.size)
        return parse_header(prefix, file.read(read_prefix(prefix)[0]))


def read_prefix(prefix: bytes) -> tuple[int, bytes]:
    """The bytes of the header, and the digest of the page sums. Raises BadWeightFile."""
    if len(prefix) < PREFIX.size or not prefix.startswith(MAGIC):
        raise BadWeightFile("it is no file of packed weights, or one of another version")
    _, size, _, sums = PREFIX.unpack(prefix)
    if size > MAX_HEADER_BYTES:
        raise BadWeightFile("its header was changed")
    return size, sums


def parse_header(prefix: bytes, header: bytes) -> dict[str, Any]:
    """The entries of a header. Raises BadWeightFile."""
    if hashlib.sha256(header).digest() != PREFIX.unpack(prefix)[2]:
        raise BadWeightFile("its header was changed, or it is truncated")
    return dict(json.loads(header))
