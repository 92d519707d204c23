"""Are there weights in a form that is safe to read, and all of them?"""

from checks.finding import Finding, listed, size
from checks.machine import Machine
from checks.plan import Plan
from inference.model.architecture import no_weights


def check(plan: Plan, machine: Machine) -> Finding:
    source = plan.repository
    files = [file for file in source.files if file.name.endswith(".safetensors")]
    need = f"{size(source.weights)} of safetensors"
    if not files:
        return Finding("weights", "safetensors", "none", False, f"the model {no_weights(source.names)}")
    missing = [file.name for file in source.files if source.folder and not file.here]
    if missing:
        verb = "are" if len(missing) > 1 else "is"
        mend = f"{listed(missing)} {verb} missing: fetch with OFFLINE = False, or copy into {source.folder}"
        have = f"{len(source.files) - len(missing)}"
        return Finding("weights", f"{len(source.files)} files", have, False, mend)
    return Finding("weights", need, "1 file" if len(files) == 1 else f"{len(files)} files", True)
