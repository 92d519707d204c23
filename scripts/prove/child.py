"""A function in a process of its own, with limits: what hangs or eats memory ends there, and is told.

Knows processes; nothing of models. Linux: it forks, so that what is imported is imported once.
"""

import multiprocessing
import os
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

FORK = multiprocessing.get_context("fork")
MEMORY = 6 << 30  # bytes of addresses that a child may take besides those it is forked with
TIMEOUT_S = 120.0


class Ended(Exception):
    """The child ended without a result; the message says how, in a few words."""


def run(function: Callable[[], Any], *, timeout_s: float = TIMEOUT_S, memory: int = MEMORY) -> Any:
    """What `function` returns in a child process, which prints nothing. Raises Ended."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=work, args=(function, theirs, memory), daemon=True)
    child.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            raise Ended(f"not done in {timeout_s:.0f} s")
        return ours.recv()
    except EOFError:
        child.join()
        raise Ended(f"its process ended with code {child.exitcode}") from None
    finally:
        child.kill()
        child.join()
        ours.close()


def work(function: Callable[[], Any], result: Connection, memory: int) -> None:
    """Compute and send, silent and limited. A parent that has computed nothing has no threads to lose."""
    silence()
    limit = addresses() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    result.send(function())


def silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def addresses() -> int:
    """Bytes of addresses that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
