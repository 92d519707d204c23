"""Checks the free disk space before and during a download.

Other processes write to the same disk. The download stops as soon as the missing bytes no longer fit, before
the disk is full.
"""

from collections.abc import Callable
from pathlib import Path

from inference.finding import Finding, Refused, format_size
from inference.process.filesystem import SPARE_BYTES, free_disk_bytes

CHECK_STEP_BYTES = 256_000_000  # bytes written between two checks
OTHER_DISK_FIX = "set CACHE_DIR to a folder on a larger disk"


class DiskGuard:
    """Refuses a download that does not fit.

    spare_bytes         free bytes that must remain
    step_bytes          bytes written between two checks
    measure_free_bytes  returns the free bytes of a folder's disk
    """

    def __init__(
        self,
        cache_dir: Path,
        *,
        spare_bytes: int = SPARE_BYTES,
        step_bytes: int = CHECK_STEP_BYTES,
        measure_free_bytes: Callable[[Path], int] = free_disk_bytes,
    ) -> None:
        self.cache_dir = cache_dir
        self.spare_bytes = spare_bytes
        self.step_bytes = step_bytes
        self.measure_free_bytes = measure_free_bytes
        self.next_check_at = 0

    def check(self, written_bytes: int, missing_bytes: int) -> None:
        """Check once per step_bytes. Raises Refused if `missing_bytes` more do not fit."""
        if written_bytes >= self.next_check_at:
            self.next_check_at = written_bytes + self.step_bytes
            self.check_now(missing_bytes)

    def check_now(self, missing_bytes: int) -> None:
        free_bytes = self.measure_free_bytes(self.cache_dir)
        if missing_bytes and free_bytes < missing_bytes + self.spare_bytes:
            raise Refused(self.shortage_finding(missing_bytes, free_bytes))

    def disk_full_error(self, missing_bytes: int) -> Refused:
        """The error for a write that the system refused: a full disk, or a quota."""
        return Refused(
            self.shortage_finding(
                missing_bytes,
                min(self.measure_free_bytes(self.cache_dir), missing_bytes + self.spare_bytes - 1),
            )
        )

    def shortage_finding(self, missing_bytes: int, free_bytes: int) -> Finding:
        shortfall = missing_bytes + self.spare_bytes - free_bytes
        return disk_finding(missing_bytes, free_bytes, shortfall, spare_bytes=self.spare_bytes)


def disk_finding(
    num_bytes: int, free_bytes: int, shortfall: int, *, spare_bytes: int = SPARE_BYTES
) -> Finding:
    """Whether the disk has room for `num_bytes`. shortfall: bytes that must be freed, 0 or less for none."""
    need = f"{format_size(num_bytes)} to fetch, {format_size(spare_bytes)} spare"
    fix = f"free {format_size(shortfall)}, or {OTHER_DISK_FIX}" if shortfall > 0 else ""
    return Finding("disk", need, f"{format_size(free_bytes)} free", not fix, fix)
