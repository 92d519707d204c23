"""Several threads may be the first ones to decode a type."""

import subprocess
import sys

# Many threads convert new types at once, and switch as often as they can: msgspec alone ends with SIGSEGV.
PROGRAM = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
from inference.struct_types import ready

sys.setswitchinterval(1e-6)
NUM_TYPES, NUM_THREADS = 60, 8
for number in range(NUM_TYPES):
    inner = msgspec.defstruct(f"Inner{number}", [(f"a{i}", int | str | None, None) for i in range(40)])
    outer = msgspec.defstruct(f"Outer{number}", [(f"b{i}", list[inner] | None, None) for i in range(40)])
    barrier = threading.Barrier(NUM_THREADS)

    def convert(_):
        barrier.wait()
        return msgspec.convert({"b0": [{"a0": 1}]}, READY(outer)).b0[0].a0

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        assert set(pool.map(convert, range(NUM_THREADS))) == {1}
"""


def exit_code(ready: str) -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM.replace("READY", ready)]).returncode


def test_threads_that_decode_a_type_first_at_the_same_time_do_not_crash() -> None:
    assert exit_code("ready") == 0
