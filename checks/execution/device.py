"""Checks that the device supports the dtype of the computation. enough_memory.py checks its memory."""

from checks.machine import Machine
from checks.memory.plan import Plan
from inference.finding import Finding, format_count, format_size, join_names

BFLOAT16 = "bfloat16"


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.model_size is None:
        return None
    dtype = plan.model_size.dtype
    if plan.device == "cpu":
        return Finding("device", f"{dtype} on the CPU", describe_cpu(machine), True)
    if not machine.gpus:
        return None
    gpus = machine.gpus[: max(plan.num_shard, len({place for place in plan.layer_devices if place != "cpu"}))]
    have = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    need = f"{dtype} on a GPU"
    unsupported_reason = next((gpu.unsupported_reason for gpu in gpus if gpu.unsupported_reason), "")
    if unsupported_reason:
        fix = 'run scripts/setup.sh, which selects the build of torch for this GPU, or DEVICE = "cpu"'
        return Finding("device", need, f"{have}: {unsupported_reason}", False, fix)
    if dtype == BFLOAT16 and "cuda" not in machine.bfloat16_devices:
        fix = 'DTYPE = "auto", which selects float16 on this GPU'
        return Finding("device", need, f"{have}, which is older than Ampere and lacks {BFLOAT16}", False, fix)
    return Finding("device", need, list_gpus(machine), True)


def check_auto(device: str, layers: str, machine: Machine) -> list[Finding]:
    """Refuse DEVICE = "auto" if torch cannot use the GPUs of the machine, rather than serve on the CPU."""
    if device != "auto" or layers or not machine.unused_gpus:
        return []
    have = f"{join_names(tuple(dict.fromkeys(machine.unused_gpus)))}: {machine.no_gpu_reason}"
    fix = f'{machine.no_gpu_fix}; or DEVICE = "cpu"'
    return [Finding("GPU", 'a GPU that torch can use, for DEVICE = "auto"', have, False, fix)]


def check_tuning(num_processes: int, plan: Plan, machine: Machine) -> list[Finding]:
    """Refuse more processes of a trainer than GPUs. On the CPU there may be any number."""
    num_gpus = len(machine.gpus)
    if plan.device == "cpu" or num_processes <= max(1, num_gpus):
        return []
    need, fix = f"{num_processes} GPUs for as many processes", f"TUNING_PROCESSES = {max(1, num_gpus)}"
    return [Finding("tuning", need, format_count(num_gpus, "GPU"), False, fix)]


def find_cpu_only_blocker(plan: Plan) -> tuple[str, str]:
    """What prevents a feature that needs a single process on the CPU, and the setting that allows it.

    Both are empty if nothing does.
    """
    if plan.device != "cpu":
        return "a model on a GPU", 'DEVICE = "cpu"'
    if plan.num_shard > 1:
        return f"a model shared by {plan.num_shard} processes", "NUM_SHARD = 1"
    return "", ""


def describe_cpu(machine: Machine) -> str:
    """That the CPU is used; and why no GPU is, if an NVIDIA driver is installed."""
    gpu_note = f"; no GPU: {machine.no_gpu_reason}" if machine.unused_gpus else ""
    unused_note = f"; not used: {list_gpus(machine)}" if machine.gpus else ""
    return "supported" + gpu_note + unused_note


def list_gpus(machine: Machine) -> str:
    """The GPUs with the numbers by which LAYERS counts them."""
    return ", ".join(
        f"GPU {number}: {gpu.name} of {format_size(gpu.total)}" for number, gpu in enumerate(machine.gpus)
    )
