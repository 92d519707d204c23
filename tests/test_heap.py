"""What is freed goes back to the system while it is told so, and is kept for the next step otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

from main import HOME

PIECES, SIZE = 40, 2 << 20
# In a process of its own: in this one, who knows what is free in the heap.
FREED = f"""
import sys
from contextlib import nullcontext
from inference.heap import returning
from inference.resident import resident
with returning():
    pass
with returning() if sys.argv[1] == "returning" else nullcontext():
    held = [b"1" * {SIZE} for _ in range({PIECES})]
    there = resident().own
    del held[1::2]
    print((there - resident().own) / ({SIZE} * {PIECES} / 2))
"""
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")


def freed(when: str) -> float:
    """Of every other of some large pieces that are freed, the share that the system got."""
    told = subprocess.run([sys.executable, "-c", FREED, when], cwd=HOME, check=True, capture_output=True)
    return float(told.stdout)


def test_large_pieces_go_back_one_by_one_although_others_stay() -> None:
    assert freed("returning") > 0.9


def test_what_steps_use_is_kept_for_the_next() -> None:
    assert freed("otherwise") < 0.1
