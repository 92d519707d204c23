"""Checks that the disk has room for files to fetch and packed weights, and that the cache is writable."""

from pathlib import Path

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.memory.terms import bytes_of_weights
from hub.download.disk_guard import OTHER_DISK_FIX, disk_finding
from hub.errors import explain_unwritable
from inference.finding import Finding, format_count, format_size
from inference.model.weights.weight_cache import MIN_BYTES, allows_cache
from inference.process.filesystem import SPARE_BYTES, UNCOUNTED, free_disk_bytes

FILES_PER_DOWNLOAD = 2  # inodes of a file: its blob and its link
EXTRA_FILES = 16  # inodes for folders, locks and refs


def check(plan: Plan, machine: Machine) -> list[Finding]:
    repository = plan.repository
    if repository.folder is not None or not repository.bytes_to_fetch:
        return [Finding("disk", "nothing to fetch", f"{format_size(machine.disk)} free", True)]
    num_bytes = repository.bytes_to_fetch
    need = num_bytes + num_bytes // 100 + SPARE_BYTES
    return [
        disk_finding(num_bytes, machine.disk, need - machine.disk),
        check_cache(len(repository.files_to_fetch), machine),
    ]


def check_weight_cache(folder: Path | None, plan: Plan, machine: Machine) -> list[Finding]:
    """Whether the packed weights can be kept for the next start. A short disk is no reason to refuse.

    folder: that of WEIGHT_CACHE_DIR; None: it is off
    """
    request = plan.request
    is_used = allows_cache(
        plan.device, request.num_shard, request.layer_devices, trust_remote_code=request.trust_remote_code
    )
    if folder is None or plan.model_size is None or not is_used:
        return []
    num_bytes = bytes_of_weights(plan, plan.model_size)
    if num_bytes < MIN_BYTES:
        return []
    free = free_disk_bytes(folder)
    if free == machine.disk:  # the disk of the files to fetch, which come first
        free = max(0, free - plan.repository.bytes_to_fetch)
    have = f"{format_size(free)} free in {folder}"
    if free < num_bytes + SPARE_BYTES:
        have += ": weights that are not kept yet are packed at each start"
    return [Finding("weight cache", f"{format_size(num_bytes)} for packed weights", have, True)]


def check_cache(num_files: int, machine: Machine) -> Finding:
    """Check that `num_files` can be created: the folder may be read-only, or the disk out of inodes."""
    need = FILES_PER_DOWNLOAD * num_files + EXTRA_FILES
    need_text = f"to write {format_count(num_files, 'file')}"
    if machine.write_error:
        return explain_unwritable(need_text, machine.write_error)
    count = "any number" if machine.inodes >= UNCOUNTED else str(machine.inodes)
    have = f"room for {count}"
    if need > machine.inodes:
        fix = f"remove {format_count(need - machine.inodes, 'file')} from its disk, or {OTHER_DISK_FIX}"
        return Finding(
            "cache", need_text, f"{have}: with links, locks and folders {need} are needed", False, fix
        )
    link_note = "" if machine.has_links else ", but no symbolic links: every version keeps its own copies"
    return Finding("cache", need_text, have + link_note, True)
