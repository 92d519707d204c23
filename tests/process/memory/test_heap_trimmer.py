"""Memory that a large request has freed goes back to the system, once for each growth."""

import subprocess
import sys

import pytest

from main import HOME

# Runs in its own process: what is free in this process's heap is unknown. The blocks are too small for a
# mapping of their own, and every hundredth one stays: the C library returns none of the others by itself.
FREED = """
import sys
from inference.process.memory.heap_trimmer import HeapTrimmer
from inference.process.memory.rss import resident_memory
trimmer = HeapTrimmer()
num_blocks = int(sys.argv[1])
blocks = [b"1" * 50_000 for _ in range(num_blocks)]
kept_blocks = blocks[::-100]
before = resident_memory().own
del blocks
print(before - resident_memory().own < 5_000 * num_blocks)
print(trimmer.trim_if_grown(), before - resident_memory().own > 40_000 * num_blocks, trimmer.trim_if_grown())
"""
# The thread's arena ends with what it has freed: less than the C library returns by itself.
FREED_BY_A_THREAD = """
from concurrent.futures import ThreadPoolExecutor
from inference.process.memory.heap_trimmer import HeapTrimmer
from inference.process.memory.malloc import STEP_BLOCK, set_mmap_threshold, trim_heap
from inference.process.memory.rss import resident_memory
set_mmap_threshold(STEP_BLOCK)

def is_returned(thread, trim):
    trimmer, before = HeapTrimmer(trim), resident_memory().own
    thread.submit(lambda: len([b"1" * 50_000 for _ in range(800)])).result()
    assert trimmer.trim_if_grown()
    return resident_memory().own - before < 10_000_000

first, second = ThreadPoolExecutor(1), ThreadPoolExecutor(1)  # two arenas: neither thread ends
print(is_returned(first, trim_heap), is_returned(second, lambda: second.submit(trim_heap).result()))
"""
pytestmark = pytest.mark.system("linux")


def run(program: str, *arguments: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=HOME, check=True, capture_output=True, text=True
    )
    return result.stdout.split()


@pytest.mark.parametrize("num_blocks", ["400", "2000"])
def test_freed_memory_is_returned_once(num_blocks: str) -> None:
    assert run(FREED, num_blocks) == ["True", "True", "True", "False"]


def test_the_end_of_a_threads_arena_is_returned_on_that_thread() -> None:
    assert run(FREED_BY_A_THREAD) == ["False", "True"]
