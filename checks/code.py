"""May Python code that comes with the model run here, and is it the code that was read before?

A branch of the Hub may hold other code tomorrow; a commit holds the same for ever. A folder is its owner's.
"""

from collections.abc import Mapping
from typing import Any

from checks.finding import Finding, listed
from checks.machine import Machine
from checks.plan import Plan
from inference.model.architecture import needs_code

ALLOW = "TRUST_REMOTE_CODE = True"


def check(plan: Plan, machine: Machine) -> Finding | None:
    source = plan.repository
    files = [name for name in source.names if name.endswith(".py")]
    if not needs_code(source.config) and not (plan.code and files):
        return None
    have = f"Python code that comes with the model: {listed(files) or 'none'}"
    mend = hindrance(plan, files)
    return Finding("code", ALLOW if not plan.code else "the code that was read", have, not mend, mend)


def hindrance(plan: Plan, files: list[str]) -> str:
    """What to do before the code can run; empty where it can."""
    source = plan.repository
    pinned = not source.commit or source.revision == source.commit
    pin = "" if pinned else f'MODEL_REVISION = "{source.commit}"'
    if elsewhere := others(source.config):
        return (
            f"its code lies with another model, {elsewhere}: put {elsewhere}'s *.py into a folder with this "
            f'model\'s files, and take "{elsewhere}--" out of the auto_map in its config.json'
        )
    if not plan.code:
        return f"{' and '.join(filter(None, (ALLOW, pin)))}, once you have read {listed(files) or 'its code'}"
    return f"{pin}, the commit that you have read: a branch may change" if pin else ""


def others(config: Mapping[str, Any]) -> str:
    """Another repository that a config.json takes its code from, as 'owner/name--file.Class' does."""
    places = (str(place) for place in (config.get("auto_map") or {}).values() if "--" in str(place))
    return next((place.partition("--")[0] for place in places), "")
