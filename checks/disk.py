"""Is there room for what is still to be fetched, and may it be written? What the cache has does not count."""

from checks.finding import Finding, size
from checks.machine import Machine
from checks.machine.filesystem import MANY, SPARE
from checks.plan import Plan
from checks.source.refusals import unwritable

EACH, BESIDES = 2, 16  # files made for each file: its bytes, its link; and folders, locks and notes for all
ELSEWHERE = "set CACHE_DIR to a folder on a larger disk"


def check(plan: Plan, machine: Machine) -> list[Finding]:
    source = plan.repository
    if source.folder is not None or not source.to_fetch:
        return [Finding("disk", "nothing to fetch", free(machine), True)]
    return [space(source.to_fetch, machine), cache(len(source.wanted), machine)]


def space(fetch: int, machine: Machine) -> Finding:
    need = fetch + fetch // 100 + SPARE
    mend = "" if need <= machine.disk else f"free {size(need - machine.disk)}, or {ELSEWHERE}"
    return Finding("disk", f"{size(fetch)} to fetch, {size(SPARE)} spare", free(machine), not mend, mend)


def free(machine: Machine) -> str:
    return f"{size(machine.disk)} free{under(machine.disk_under)}"


def under(limit: str) -> str:
    return f" under {limit}" if limit else ""


def cache(files: int, machine: Machine) -> Finding:
    """Whether so many files can be made: a disk may be full of names, or closed to us."""
    need, told = EACH * files + BESIDES, f"to write {files} files"
    if machine.unwritable:
        return unwritable(told, machine.unwritable)
    count = "any number" if machine.inodes >= MANY else str(machine.inodes)
    room = f"room for {count}{under(machine.inodes_under)}"
    if need > machine.inodes:
        mend = f"remove {need - machine.inodes} files from its disk, or {ELSEWHERE}"
        return Finding("cache", told, f"{room}: with links, locks and folders {need} are made", False, mend)
    links = "" if machine.links else ", no links: every version keeps files of its own"
    return Finding("cache", told, room + links, True)
