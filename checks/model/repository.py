"""Checks of the model's repository: its version, its licence, and the Python code that comes with it.

Code must be allowed and pinned to a commit: the code of a branch on the Hub may change, the code of a commit
cannot. A local folder needs no pin.
"""

from collections.abc import Mapping
from typing import Any

from checks.machine import Machine
from checks.memory.plan import Plan
from inference.finding import Finding, join_names
from inference.model.load.architecture import requires_remote_code

ALLOW = "TRUST_REMOTE_CODE = True"


def check_access(plan: Plan, machine: Machine) -> Finding:
    """Report the version of the model. Access was granted: hub/errors.py refuses before a plan exists."""
    repository = plan.repository
    have = f"commit {repository.commit[:7]}" if repository.commit else f"the folder {repository.folder}"
    is_branch = repository.commit and repository.revision != repository.commit
    cache_note = ", as last fetched" if repository.folder and is_branch else ""
    name_note = f", now called {repository.current_name}" if repository.current_name else ""
    return Finding("access", repository.name, have + cache_note + name_note, True)


def check_licence(plan: Plan, machine: Machine) -> Finding:
    """Report the model's licence. It is never refused: the operator of the server must judge it."""
    repository = plan.repository
    is_cached = repository.folder and repository.commit
    reason = "not stored with the fetched files" if is_cached else "not stated"
    return Finding("licence", "the authors' terms", repository.licence or reason, True)


def check_remote_code(plan: Plan, machine: Machine) -> Finding | None:
    repository = plan.repository
    files = [name for name in repository.names if name.endswith(".py")]
    if not requires_remote_code(repository.config) and not (plan.trust_remote_code and files):
        return None
    have = f"Python code that comes with the model: {join_names(files) or 'none'}"
    fix = find_code_fix(plan, files)
    return Finding(
        "code", ALLOW if not plan.trust_remote_code else "code pinned to a commit", have, not fix, fix
    )


def find_code_fix(plan: Plan, files: list[str]) -> str:
    """What to do before the code may run; empty if it may."""
    repository = plan.repository
    is_pinned = not repository.commit or repository.revision == repository.commit
    pin = "" if is_pinned else f'MODEL_REVISION = "{repository.commit}"'
    if external := external_code_repository(repository.config):
        return (
            f"its code is in another repository, {external}: put {external}'s *.py into a folder with this "
            f'model\'s files, and remove "{external}--" from the auto_map in its config.json'
        )
    if not plan.trust_remote_code:
        settings = " and ".join(filter(None, (ALLOW, pin)))
        return f"{settings}, once you have read {join_names(files) or 'its code'}"
    return f"{pin}, the commit that you have read: the code of a branch may change" if pin else ""


def external_code_repository(config: Mapping[str, Any]) -> str:
    """The other repository with the model's code (auto_map "owner/name--file.Class"); else empty."""
    references = (str(place) for place in (config.get("auto_map") or {}).values() if "--" in str(place))
    return next((place.partition("--")[0] for place in references), "")
