"""Checks that the requested RUNNER can run the model. Whether its logits are correct is verified at load.

Knows the limits of the runners, and their refusal of the model on the meta device (ModelSize.runner_error).
"""

from checks.execution.device import find_cpu_only_blocker
from checks.machine import Machine
from checks.memory.kv_cost import AUTO, FUSED, PAGED
from checks.memory.plan import Plan
from inference.finding import Finding

FIX = 'RUNNER = "auto"'


def check(plan: Plan, machine: Machine) -> Finding | None:
    runner = plan.request.runner
    if runner == AUTO or plan.model_size is None:
        return None
    have, fix = find_blocker(plan, runner, plan.model_size.runner_error)
    return Finding("runner", runner, have or "supports the model", not have, fix)


def find_blocker(plan: Plan, runner: str, runner_error: str) -> tuple[str, str]:
    """Why the runner cannot be used, and the fix; both empty if it can."""
    have, setting = find_cpu_only_blocker(plan) if runner == FUSED else ("", "")
    if have:
        return have, f"{FIX}, or {setting}"
    if runner == PAGED and plan.request.deterministic:
        return "DETERMINISTIC, which excludes the paged runner", f"{FIX}, or DETERMINISTIC = False"
    if runner_error:
        return (
            f"a model, {plan.repository.config.get('model_type')}, that the runner refuses: {runner_error}",
            FIX,
        )
    return "", ""
