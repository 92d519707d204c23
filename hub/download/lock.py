"""A lock that lets one process at a time fetch a model, and the removal of orphaned partial files.

The system releases the locks of a dead process (flock).
"""

import logging
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from hub.cache import ModelCache
from hub.download.partial import DATA, JOURNAL
from inference.finding import format_size

log = logging.getLogger(__name__)

HUB_SUFFIX = ".incomplete"  # <etag>.<8 characters>.incomplete; before huggingface_hub 1.18 <etag>.incomplete
LOCK_MODE = 0o664  # as in huggingface_hub: users of a group may share a cache


@contextmanager
def locked(path: Path, on_wait: Callable[[], None], poll_s: float = 0.5) -> Iterator[None]:
    """Hold the lock. While another process holds it, call `on_wait` every poll_s seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=LOCK_MODE)
    while not try_acquire(lock):
        on_wait()
        time.sleep(poll_s)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Try to take the lock. Yields whether it is held, in that case until the end of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, mode=LOCK_MODE)
    if not try_acquire(lock):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def try_acquire(lock: BaseFileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True


def remove_orphans(cache: ModelCache, needed_etags: Container[str], quiet_s: float) -> int:
    """Remove partial files that no fetch will resume, and return the bytes freed.

    needed_etags: files that are still to be fetched. quiet_s: seconds without a write after which a partial
    file counts as abandoned. The caller must hold the model's lock.
    """
    freed_bytes = sum(remove_file(path) for path in find_orphans(cache, needed_etags, time.time() - quiet_s))
    if freed_bytes:
        log.info("removed=%s of abandoned partial downloads", format_size(freed_bytes))
    return freed_bytes


def find_orphans(cache: ModelCache, needed_etags: Container[str], modified_before: float) -> Iterator[Path]:
    for path in cache.blobs.glob("*"):
        etag = path.name.partition(".")[0]
        if path.suffix not in (DATA, JOURNAL, HUB_SUFFIX) or path.stat().st_mtime > modified_before:
            continue
        if path.suffix != HUB_SUFFIX:
            if etag not in needed_etags:
                yield path
            continue
        with locked_if_free(cache.locks / f"{etag}.lock") as is_free:
            if is_free:
                yield path


def remove_file(path: Path) -> int:
    """Remove a file and return its bytes on the disk, which are fewer than its length if it is sparse."""
    stat = path.stat()
    path.unlink(missing_ok=True)
    return min(stat.st_size, getattr(stat, "st_blocks", stat.st_size) * 512)  # Windows counts no blocks
