"""Runs the test suite's tests for a GPU, and its tests of tiny models on the GPU instead of the CPU.

conftest.py files are not loaded: they import Flask, which the machine may lack. Every line of pytest goes to
correct.txt in the output folder at once, failures also to stdout. The tests are ended with the section's
time.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from scripts.gpu.figure import Figure, WrongResult
from scripts.gpu.section import SectionRun

ROOT = Path(__file__).resolve().parents[3]


class TestGroup(NamedTuple):
    """Tests of one pytest run. on_gpu: whether tiny models are on the GPU if the test names no device."""

    name: str
    mark: str
    on_gpu: bool
    arguments: tuple[str, ...]


GROUPS = (
    TestGroup(
        "GPU tests",
        "gpu",
        False,
        (
            "tests/model/paged",
            "tests/model/placement/test_hooks.py",
            "tests/model/test_memory_usage.py",
            "tests/model/test_device_copy.py",
            "tests/engine/sampling/test_triton_sampling_on_gpu.py",
            "tests/model/lora",
            "tests/model/quantization/test_device_matrix.py",
        ),
    ),
    TestGroup(
        "tiny models",
        "not gpu",
        True,
        (
            "tests/model/contiguous/test_runner.py",
            "tests/test_walks_of_models.py",
            "tests/test_determinism.py",
            "tests/test_speculation.py",
            "tests/test_families.py",
            "tests/lora/test_answers.py",
        ),
    ),
)
SAMPLE = (
    TestGroup("sample", "not gpu", True, ("tests/test_families.py", "-k", "generate and (llama or gpt2)")),
)
OUTCOMES = ("passed", "failed", "error", "skipped")
OPTIONS = ("--noconftest", "-p", "no:cacheprovider", "-vv", "--tb=short", "--continue-on-collection-errors")
PROCESSES = 12
END_S = 15  # before the end of the section: pytest then reports the failures so far
# A line of a test's outcome, as pytest-xdist and as pytest -v write it.
RESULTS = tuple(
    re.compile(pattern % "|".join(OUTCOMES).upper())
    for pattern in (r"\[gw\d+\] \[ *\d+%%\] (%s) ", r"tests/\S+::.*? (%s)\b")
)
FAILURES = ("E  ", "FAILED ", "ERROR ")  # beginnings of lines that explain a failure
MAX_CHARS = 200


def measure_section(run: SectionRun) -> Iterator[Figure]:
    """Raises WrongResult if a test failed, or if the tests did not end in time."""
    run.engines.free()
    codes = {}
    with (run.options.output / "correct.txt").open("w") as file:
        for group in run.choose(GROUPS if run.bench.device == "cuda" else GROUPS[1:], SAMPLE):
            counts: Counter[str] = Counter()
            with running_tests(run, group) as process:
                summary = copy_lines(process, file, counts)
                codes[group.name] = process.wait()
            for outcome in OUTCOMES:
                yield Figure(f"{group.name}, {outcome}", counts[outcome], "tests")
            yield Figure(f"{group.name}, summary", summary or "none", remark=f"exit code {codes[group.name]}")
    if wrong := [name for name, code in codes.items() if code]:
        raise WrongResult(", ".join(wrong))


@contextmanager
def running_tests(run: SectionRun, group: TestGroup) -> Iterator[subprocess.Popen[str]]:
    """pytest runs within the block. Shortly before the section's end it is interrupted, at the end killed."""
    device = run.bench.device if group.on_gpu else "cpu"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS, *parallel(run), "-m", group.mark, *group.arguments],
        cwd=ROOT,
        env=os.environ | {"TINY_DEVICE": device, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timers = (
        threading.Timer(max(1.0, run.remaining_s - END_S), process.send_signal, [signal.SIGINT]),
        threading.Timer(max(2.0, run.remaining_s), process.kill),
    )
    for timer in timers:
        timer.start()
    try:
        yield process
    finally:
        for timer in timers:
            timer.cancel()
        process.kill()
        process.wait()


def parallel(run: SectionRun) -> list[str]:
    """pytest's arguments for several processes, if pytest-xdist is installed."""
    if run.options.sample or importlib.util.find_spec("xdist") is None:
        return []
    return ["-n", str(min(PROCESSES, os.cpu_count() or 1))]


def copy_lines(process: subprocess.Popen[str], file: TextIO, counts: Counter[str]) -> str:
    """Copy pytest's lines to the file, failures to stdout, and count outcomes; returns the last line."""
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        file.write(line)
        file.flush()
        outcome = outcome_of(line)
        counts[outcome] += 1
        if outcome in ("failed", "error") or line.startswith(FAILURES):
            print(f"  {line.rstrip()[:MAX_CHARS]}", flush=True)
        last = line.strip(" =\n") or last
    return last


def outcome_of(line: str) -> str:
    """The outcome of a test that a line reports, one of OUTCOMES; empty for other lines."""
    matches = filter(None, (pattern.match(line) for pattern in RESULTS))
    return next((match[1].lower() for match in matches), "")
