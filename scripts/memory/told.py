"""A case's figures as a line of the table."""

from checks.finding import size
from scripts.memory.cases import Case
from scripts.memory.measured import Measured, Pair

HEAD = ("model", "loading", "came", "", "serving", "came", "", "step", "came", "disk")


def row(case: Case, found: Measured) -> tuple[str, ...]:
    """What was predicted and came, of RAM while it loads and serves, of a step, of the disk."""
    step = next(pair for term, pair in found.terms.items() if term.endswith(" step"))
    disk = found.terms["disk"]
    exact = "exact" if disk.predicted == disk.actual else f"{disk.error:+.2%}"
    pairs = (*cells(found.loading), *cells(found.serving))
    return (case.name, *pairs, size(step.predicted), size(step.actual), exact)


def cells(pair: Pair) -> tuple[str, str, str]:
    return size(pair.predicted), size(pair.actual), f"{pair.error:+.1%}"
