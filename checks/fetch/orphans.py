"""What dead processes left in a model's blobs: removed where their writers are surely dead.

Ours are dead when we hold the model's lock; huggingface_hub's when the lock of their blob is free. Some
network file systems grant every lock, so a file that was written to lately is left alone, too.
"""

import logging
import time
from collections.abc import Container, Iterator
from pathlib import Path

from checks.fetch.lock import held_if_free
from checks.fetch.partial import DATA, JOURNAL
from checks.finding import size
from checks.source.cache import Storage

log = logging.getLogger(__name__)

THEIRS = ".incomplete"  # <etag>.<eight letters>.incomplete, before hub 1.18 <etag>.incomplete
QUIET_S = 600.0


def reclaim(storage: Storage, wanted: Container[str], quiet_s: float = QUIET_S) -> int:
    """Remove what will not be taken up again, and say so; bytes. `wanted` are the etags still to come.

    The caller holds the model's lock.
    """
    freed = sum(removed(path) for path in dead(storage, wanted, time.time() - quiet_s))
    if freed:
        log.info("reclaimed=%s of downloads that ended half way", size(freed))
    return freed


def dead(storage: Storage, wanted: Container[str], before: float) -> Iterator[Path]:
    for path in storage.blobs.glob("*"):
        etag = path.name.partition(".")[0]
        if path.suffix not in (DATA, JOURNAL, THEIRS) or path.stat().st_mtime > before:
            continue
        if path.suffix != THEIRS and etag not in wanted:
            yield path
        elif path.suffix == THEIRS:
            with held_if_free(storage.locks / f"{etag}.lock") as free:
                if free:
                    yield path


def removed(path: Path) -> int:
    """Bytes that the disk has back: a file with gaps took less than its length."""
    stat = path.stat()
    path.unlink(missing_ok=True)
    return min(stat.st_size, stat.st_blocks * 512)
