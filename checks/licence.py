"""Under which licence does the model come? Shown, not judged: who serves it must know."""

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan


def check(plan: Plan, machine: Machine) -> Finding:
    source = plan.repository
    unknown = "not kept with what was fetched" if source.folder and source.commit else "none named"
    return Finding("licence", "what its authors allow", source.licence or unknown, True)
