"""Memory that a large request has freed goes back to the system, once for each growth."""

import subprocess
import sys
from pathlib import Path

import pytest

from main import HOME

# Runs in its own process: what is free in this process's heap is unknown. The blocks are too small for a
# mapping of their own, and every hundredth one stays: the C library returns none of the others by itself.
FREED = """
from inference.process.heap_trimmer import HeapTrimmer
from inference.process.rss import resident_memory
trimmer = HeapTrimmer()
blocks = [b"1" * 50_000 for _ in range(2000)]
kept_blocks = blocks[::100]
before = resident_memory().own
del blocks
print(before - resident_memory().own < 10_000_000)
print(trimmer.trim_if_grown(), before - resident_memory().own > 80_000_000, trimmer.trim_if_grown())
"""
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")


def test_freed_memory_is_returned_once() -> None:
    result = subprocess.run(
        [sys.executable, "-c", FREED], cwd=HOME, check=True, capture_output=True, text=True
    )
    assert result.stdout.split() == ["True", "True", "True", "False"]
