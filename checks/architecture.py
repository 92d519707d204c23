"""Does the installed transformers know this kind of model, and may its own code run if it does not?"""

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan
from inference.model.architecture import needs_code, unserved


def check(plan: Plan, machine: Machine) -> Finding:
    config = plan.repository.config
    kind = str(config.get("model_type"))
    if why := unserved(config):
        return Finding("architecture", kind, "not known", False, f"the model {why}")
    if needs_code(config) and not plan.code:
        mend = "TRUST_REMOTE_CODE = True, if you trust the model's authors"
        return Finding("architecture", kind, "Python code that comes with the model", False, mend)
    return Finding("architecture", kind, "its own code" if needs_code(config) else "known", True)
