"""Runs the test suite's tests of tiny models on the GPU instead of the CPU.

conftest.py files are not loaded: they import Flask, which the machine may lack.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.gpu.section import ReportRow, SectionOptions, WrongResult

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = (
    "tests/test_families.py",
    "tests/test_speculation.py",
    "tests/test_determinism.py",
    "tests/test_walks_of_models.py",
    "tests/model/paged",
    "tests/model/contiguous/test_runner.py",
    "tests/model/placement",
    "tests/model/test_memory_usage.py",
)
SAMPLE = ("tests/test_families.py", "-k", "llama or gpt2")


def measure_section(options: SectionOptions) -> Iterator[ReportRow]:
    device = options.bench.device
    marks = [] if device == "cuda" else ["-m", "not gpu"]
    suite = SAMPLE if options.sample else SUITE
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", *marks, *suite],
        cwd=ROOT,
        env=os.environ | {"TINY_DEVICE": device},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(result.stdout, flush=True)
    summary = (result.stdout.strip().splitlines() or ["nothing"])[-1]
    if result.returncode:
        raise WrongResult(summary)
    yield "tests", "pass", f"{device}: {summary}"
