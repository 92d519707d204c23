"""Freed blocks are returned to the system inside mmap_large_blocks, and kept for the next step otherwise."""

import subprocess
import sys

import pytest

from inference.process.memory import malloc
from main import HOME

NUM_BLOCKS, SIZE = 40, 2 << 20
# Runs in its own process: what is free in this process's heap is unknown.
FREED = f"""
import sys
from contextlib import nullcontext
from inference.process.memory.malloc import mmap_large_blocks
from inference.process.memory.rss import resident_memory
with mmap_large_blocks():
    pass
with mmap_large_blocks() if sys.argv[1] == "returning" else nullcontext():
    blocks = [b"1" * {SIZE} for _ in range({NUM_BLOCKS})]
    before = resident_memory().own
    del blocks[1::2]
    print((before - resident_memory().own) / ({SIZE} * {NUM_BLOCKS} / 2))
"""
pytestmark = pytest.mark.system("linux")


def measure_freed_share(when: str) -> float:
    """Frees every other one of some large blocks; returns the share of their bytes that went back to the
    system.
    """
    result = subprocess.run([sys.executable, "-c", FREED, when], cwd=HOME, check=True, capture_output=True)
    return float(result.stdout)


def test_large_blocks_are_returned_one_by_one_while_others_stay() -> None:
    assert measure_freed_share("returning") > 0.9


def test_memory_of_steps_is_kept_for_the_next() -> None:
    assert measure_freed_share("otherwise") < 0.1


def test_windows_has_no_allocator_to_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: None) -> None:
        raise TypeError("argument of type 'NoneType' is not iterable")  # what ctypes.CDLL raises there

    with monkeypatch.context() as patch:
        patch.setattr(malloc.ctypes, "CDLL", no_library)
        patch.setattr(malloc.os, "name", "nt")
        malloc.limit_arenas()
        malloc.prefault_heap(malloc.STEP_BLOCK)
        malloc.trim_heap()
        with malloc.mmap_large_blocks():
            pass
