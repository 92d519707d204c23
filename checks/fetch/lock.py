"""One process at a time fetches a model; the others wait, and the next goes on when it ends, or dies.

The system lets go of a dead process's locks (flock), so no lock outlives its owner.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

MODE = 0o664  # as huggingface_hub's: users of a group may share a cache


@contextmanager
def held(path: Path, waiting: Callable[[], None], every_s: float = 0.5) -> Iterator[None]:
    """Hold the lock; while another does, call `waiting` every so often."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=MODE)
    while not taken(lock):
        waiting()
        time.sleep(every_s)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def held_if_free(path: Path) -> Iterator[bool]:
    """Whether nobody holds the lock; nobody else does until the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=MODE)
    if not taken(lock):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def taken(lock: BaseFileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True
