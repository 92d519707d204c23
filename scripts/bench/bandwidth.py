"""The memory's speed, which bounds how fast one answer is decoded: every weight is read for each token.

Measured by a small C program where there is a compiler, as torch's loops are slower than the memory is; by
torch where there is none.
"""

import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import torch

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-march=native", "-fopenmp")
BYTES, PASSES = 1 << 29, 12


def read(threads: int) -> float:
    """Bytes per second, the best of a few passes."""
    program = compiled()
    return by_program(program, threads) if program else by_torch(threads)


@cache
def compiled() -> Path | None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    program = Path(tempfile.mkdtemp(), SOURCE.stem)
    command = [compiler or "", *FLAGS, str(SOURCE), "-o", str(program)]
    return program if compiler and not subprocess.run(command, stderr=subprocess.DEVNULL).returncode else None


def by_program(program: Path, threads: int) -> float:
    told = subprocess.run([program, str(threads)], stdout=subprocess.PIPE, check=True, text=True)
    return float(told.stdout)


def by_torch(threads: int) -> float:
    torch.set_num_threads(threads)
    values = torch.zeros(BYTES // 4)
    first, second = values.chunk(2)
    return BYTES / min(timed(first, second) for _ in range(PASSES))


def timed(first: torch.Tensor, second: torch.Tensor) -> float:
    began = time.perf_counter()
    torch.dot(first, second)
    return time.perf_counter() - began
