"""Is there still room on the disk? Asked before the first byte, and again and again while bytes are written.

Others write on the same disk. We stop as soon as what is missing does not fit any more, not when all is full.
"""

from collections.abc import Callable
from pathlib import Path

from checks.finding import Finding, Refused, size
from checks.machine.filesystem import SPARE, free_disk

STEP = 256_000_000  # bytes written between two looks


class Room:
    """`free` tells the bytes that may be written where the cache is; `spare` of them stay free."""

    def __init__(
        self, cache: Path, *, spare: int = SPARE, step: int = STEP, free: Callable[[Path], int] = free_disk
    ) -> None:
        self.cache, self.spare, self.step, self.free = cache, spare, step, free
        self.next = 0

    def watch(self, written: int, missing: int) -> None:
        """Look again after each step. Raises Refused where `missing` more bytes do not fit."""
        if written >= self.next:
            self.next = written + self.step
            self.look(missing)

    def look(self, missing: int) -> None:
        free = self.free(self.cache)
        if missing and free < missing + self.spare:
            raise Refused(self.short(missing, free))

    def full(self, missing: int) -> Refused:
        """The system itself has said no: a full disk, or a quota."""
        return Refused(self.short(missing, min(self.free(self.cache), missing + self.spare - 1)))

    def short(self, missing: int, free: int) -> Finding:
        return Finding(
            "disk",
            f"{size(missing)} to fetch, {size(self.spare)} spare",
            f"{size(free)} free",
            False,
            f"free {size(missing + self.spare - free)}, or set CACHE_DIR to a folder on a larger disk",
        )
