"""Runs a function in a child process with a time limit and a memory limit.

Knows nothing about models. Linux only: the child is forked, so that it need not import anything again.
"""

import multiprocessing
import os
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

FORK = multiprocessing.get_context("fork")
MEMORY = 6 << 30  # bytes of address space that a child may add to what it inherits
TIMEOUT_S = 120.0


class ChildFailed(Exception):
    """The child ended without a result; the message has its exit code or the time limit."""


def run(function: Callable[[], Any], *, timeout_s: float = TIMEOUT_S, memory: int = MEMORY) -> Any:
    """The result of `function`, called in a child process whose output is discarded. Raises ChildFailed."""
    parent_end, child_end = FORK.Pipe(duplex=False)
    child = FORK.Process(target=run_in_child, args=(function, child_end, memory), daemon=True)
    child.start()
    child_end.close()
    try:
        if not parent_end.poll(timeout_s):
            raise ChildFailed(f"not done in {timeout_s:.0f} s")
        return parent_end.recv()
    except EOFError:
        child.join()
        raise ChildFailed(f"its process ended with code {child.exitcode}") from None
    finally:
        child.kill()
        child.join()
        parent_end.close()


def run_in_child(function: Callable[[], Any], result: Connection, memory: int) -> None:
    """Send the result. Forking is safe: the parent has not computed anything, so it has no torch threads."""
    silence_output()
    num_pages = int(Path("/proc/self/statm").read_text().split()[0])  # of the address space
    limit = num_pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    result.send(function())


def silence_output() -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(devnull, stream)
