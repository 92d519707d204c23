"""Does the installed transformers know this kind of model? If it brings its own code, code.py judges that."""

from collections.abc import Mapping
from typing import Any

import transformers
from packaging.version import InvalidVersion, Version
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan
from checks.source.config import MEND
from inference.model.architecture import needs_code, unserved


def check(plan: Plan, machine: Machine) -> Finding:
    config = plan.repository.config
    kind = str(config.get("model_type"))
    if why := unserved(config):
        return Finding("architecture", kind, "not known", False, newer(config) or f"the model {why}")
    if needs_code(config):
        return Finding("architecture", kind, "its own code", True)
    if why := plan.measure.unmade if plan.measure else "":
        return Finding("architecture", kind, f"transformers cannot make it: {why}", False, MEND)
    return Finding("architecture", kind, "known", True)


def newer(config: Mapping[str, Any]) -> str:
    """What to install where a newer transformers wrote the config.json of a type that ours does not know."""
    try:
        wrote, ours = Version(str(config.get("transformers_version"))), Version(transformers.__version__)
    except InvalidVersion:
        return ""
    if config.get("model_type") in CONFIG_MAPPING_NAMES or wrote <= ours:
        return ""
    release = wrote.base_version
    return (
        f"transformers {ours} is installed, and {wrote} wrote its config.json: "
        f'pip3 install "transformers>={release}"'
    )
