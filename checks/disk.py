"""Is there room for what is still to be fetched? What lies in the cache already does not count."""

from checks.finding import Finding, size
from checks.machine import Machine
from checks.plan import Plan

SPARE = 1_000_000_000  # bytes that stay free for everything else on the disk


def check(plan: Plan, machine: Machine) -> Finding:
    fetch = plan.repository.to_fetch if plan.repository.folder is None else 0
    if not fetch:
        return Finding("disk", "nothing to fetch", f"{size(machine.disk)} free", True)
    need = fetch + fetch // 100 + SPARE
    ok = need <= machine.disk
    mend = f"free {size(need - machine.disk)}, or set CACHE_DIR to a folder on a larger disk"
    return Finding(
        "disk",
        f"{size(fetch)} to fetch, {size(SPARE)} spare",
        f"{size(machine.disk)} free",
        ok,
        "" if ok else mend,
    )
