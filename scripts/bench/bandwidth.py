"""Measures memory bandwidth, the limit for decoding one sequence: each token reads every weight.

A small C program measures it if there is a compiler; otherwise torch does, whose loops are slower than
memory.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import torch

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-march=native", "-fopenmp")
BYTES, PASSES = 1 << 29, 12


def measure(threads: int) -> float:
    """Bytes read per second: the best of PASSES."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, SOURCE.stem)
        if not compile_program(program):
            return measure_with_torch(threads)
        result = subprocess.run([program, str(threads)], stdout=subprocess.PIPE, check=True, text=True)
        return float(result.stdout)


def compile_program(program: Path) -> bool:
    """Compile the C program; returns whether there is a compiler that can."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    command = [compiler or "", *FLAGS, str(SOURCE), "-o", str(program)]
    return compiler is not None and subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def measure_with_torch(threads: int) -> float:
    torch.set_num_threads(threads)
    values = torch.zeros(BYTES // 4)
    first, second = values.chunk(2)
    return BYTES / min(time_dot(first, second) for _ in range(PASSES))


def time_dot(first: torch.Tensor, second: torch.Tensor) -> float:
    start_s = time.perf_counter()
    torch.dot(first, second)
    return time.perf_counter() - start_s
