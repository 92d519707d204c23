"""May we have the model? A plan exists, so the answer is yes; refusals.py tells the ways to no."""

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan


def check(plan: Plan, machine: Machine) -> Finding:
    source = plan.repository
    have = f"commit {source.commit[:7]}" if source.commit else f"the folder {source.folder}"
    moves = source.commit and source.revision != source.commit
    known = ", as last fetched" if source.folder and moves else ""
    renamed = f", now called {source.now}" if source.now else ""
    return Finding("access", source.name, have + known + renamed, True)
