"""Are there weights in a form that is safe to read, and all of them?"""

from checks.finding import Finding, size
from checks.machine import Machine
from checks.plan import Plan
from inference.model.architecture import no_weights


def check(plan: Plan, machine: Machine) -> Finding:
    source = plan.repository
    files = [file for file in source.files if file.name.endswith(".safetensors")]
    need = f"{size(source.weights)} of safetensors"
    if not files:
        return Finding("weights", "safetensors", "none", False, f"the model {no_weights(source.names)}")
    missing = [file.name for file in files if source.folder and not file.here]
    if missing:
        mend = (
            f"{missing[0]} is missing: fetch it again with OFFLINE = False, or copy it into {source.folder}"
        )
        return Finding("weights", f"{len(files)} files", f"{len(files) - len(missing)}", False, mend)
    return Finding("weights", need, "1 file" if len(files) == 1 else f"{len(files)} files", True)
