"""The tests of real models, tiny ones, on the device: the same that run on the CPU everywhere else.

Without the tests' conftest.py files, for a machine that has no web framework: of those, none has what is
needed here.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.gpu.part import Asked, Line, Wrong

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = (
    "tests/test_families.py",
    "tests/test_speculation.py",
    "tests/test_determinism.py",
    "tests/test_walks_of_models.py",
    "tests/model/packed",
    "tests/model/slots/test_slots.py",
    "tests/model/split",
    "tests/model/test_gpus.py",
)
SAMPLE = ("tests/test_families.py", "-k", "llama or gpt2")


def lines(asked: Asked) -> Iterator[Line]:
    device = asked.terms.device
    marks = [] if device == "cuda" else ["-m", "not gpu"]
    suite = SAMPLE if asked.sample else SUITE
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", *marks, *suite],
        cwd=ROOT,
        env=os.environ | {"TINY_DEVICE": device},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(ran.stdout, flush=True)
    told = (ran.stdout.strip().splitlines() or ["nothing"])[-1]
    if ran.returncode:
        raise Wrong(told)
    yield "tests", "pass", f"{device}: {told}"
