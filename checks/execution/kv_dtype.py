"""Checks that keys and values can have KV_DTYPE: 8 bits on a CPU, in a runner with pages."""

from checks.machine import Machine
from checks.memory.kv_cost import AUTO, FUSED, PAGED
from checks.memory.plan import Plan
from inference.finding import Finding

FIX = 'KV_DTYPE = "auto"'


def check(plan: Plan, machine: Machine) -> Finding | None:
    kv_dtype = plan.request.kv_dtype
    if kv_dtype == AUTO or plan.model_size is None:
        return None
    have, fix = find_blocker(plan, plan.model_size.runner_error)
    return Finding("kv_dtype", kv_dtype, have or "a KV cache in pages on a CPU", not have, fix)


def find_blocker(plan: Plan, runner_error: str) -> tuple[str, str]:
    """Why keys and values keep the model's dtype, and the fix; both empty if they need not."""
    if plan.layer_devices:
        return "layers on a GPU", f'LAYERS = "", or {FIX}'
    if plan.device != "cpu":
        return "a model on a GPU", f'DEVICE = "cpu", or {FIX}'
    if plan.request.runner not in (AUTO, FUSED, PAGED):
        return f"the {plan.request.runner} runner, which has no pages", f'RUNNER = "auto", or {FIX}'
    if runner_error:
        model_type = plan.repository.config.get("model_type")
        return f"a model, {model_type}, that no runner with pages computes: {runner_error}", FIX
    return "", ""
