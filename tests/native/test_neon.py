"""Products of ARM's levels, cross-compiled and run by an emulator, equal those of this machine."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.native.build import C_SOURCES, FLAGS, compile_openmp, sources_of
from inference.native.cpu_levels import ARM_LEVELS, Level
from inference.native.library import available
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import GGUF_DTYPES, NativeDtype
from tests.native.gguf_blocks import blocks_of

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PROGRAM = Path(__file__).with_name("multiply_packed.c")
UNOPTIMIZED = "-O0"  # ten times as fast to compile
SHAPE = (37, 512)  # outputs, inputs: panels of which the last is not full
ROWS = (1, 7)  # a row alone; and blocks of three and of four, which are multiplied in pairs
# Error of a product relative to its norm. bfloat16: of rows that are rounded to it, on one of the processors.
ERROR = dict.fromkeys(NativeDtype, 1e-6) | {NativeDtype.BF16: 4e-3}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"no {COMPILER} or {EMULATOR}"
    ),
    pytest.mark.skipif(not available(), reason="no native library"),
]


def build_program(level: Level, folder: Path) -> Path:
    program = folder / "multiply_packed"
    flags = (*FLAGS, *compile_openmp(), *level.flags, UNOPTIMIZED, "-static", f"-I{C_SOURCES}")
    files = (str(PROGRAM), *map(str, sources_of(level)))
    subprocess.run((COMPILER, *flags, *files, "-o", str(program), "-lm"), check=True)
    return program


def random_matrix(dtype: NativeDtype) -> PackedMatrix:
    if dtype in GGUF_DTYPES:
        blocks, _ = blocks_of(dtype, *SHAPE)
        return PackedMatrix.pack_gguf(blocks, torch.arange(SHAPE[0]), SHAPE[1], dtype)
    return PackedMatrix.pack(torch.randn(SHAPE, generator=torch.Generator().manual_seed(dtype)), dtype)


def emulated_products(program: Path, jobs: Sequence[tuple[PackedMatrix, Tensor]]) -> list[Tensor]:
    """What the emulated processor computes of each matrix and rows (rows, inputs)."""
    command = (EMULATOR, "-cpu", "max", str(program))
    sent = b"".join(bytes_of(matrix, x) for matrix, x in jobs)
    done = subprocess.run(command, input=sent, capture_output=True, check=True)
    products = torch.frombuffer(bytearray(done.stdout), dtype=torch.float32)
    return [each.view(-1, SHAPE[0]) for each in products.split([len(x) * SHAPE[0] for _, x in jobs])]


def bytes_of(matrix: PackedMatrix, x: Tensor) -> bytes:
    head = torch.tensor([matrix.dtype, *SHAPE, SHAPE[1], len(x)], dtype=torch.int32)
    return b"".join(each.numpy().tobytes() for each in (head, matrix.values, matrix.scales, x))


@pytest.mark.parametrize("level", ARM_LEVELS, ids=lambda level: level.name)
def test_products_are_those_of_this_machine(level: Level, tmp_path: Path) -> None:
    program = build_program(level, tmp_path)
    x = torch.randn(max(ROWS), SHAPE[1], generator=torch.Generator().manual_seed(1))
    matrices = {dtype: random_matrix(dtype) for dtype in NativeDtype}
    products = emulated_products(program, [(each, x[:rows]) for each in matrices.values() for rows in ROWS])
    for (dtype, matrix), alone, together in zip(matrices.items(), products[::2], products[1::2], strict=True):
        right = matrix.linear(x)
        assert (together - right).norm() < ERROR[dtype] * right.norm(), dtype.name
        assert torch.equal(alone, together[:1]), f"{dtype.name}: row by row"
