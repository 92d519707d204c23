"""Checks that the installed transformers can build the model.

repository.py checks models that bring their own code.
"""

from collections.abc import Mapping
from typing import Any

import transformers
from packaging.version import InvalidVersion, Version
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from checks.machine import Machine
from checks.memory.plan import Plan
from hub.model_config import FIX
from inference.finding import Finding
from inference.model.load.architecture import requires_remote_code, why_unsupported
from inference.model.load.tasks import task_of_type


def check(plan: Plan, machine: Machine) -> Finding:
    config = plan.repository.config
    model_type = str(config.get("model_type") or "a model_type in config.json")
    if why := why_unsupported(config):
        have = "not a text generator" if is_known(config) else "unknown"
        return Finding("architecture", model_type, have, False, upgrade_hint(config) or f"the model {why}")
    if requires_remote_code(config):
        return Finding("architecture", model_type, "its own code", True)
    if why := plan.model_size.construct_error if plan.model_size else "":
        return Finding("architecture", model_type, f"transformers cannot build it: {why}", False, FIX)
    return Finding("architecture", model_type, "known", True)


def is_known(config: Mapping[str, Any]) -> bool:
    """Whether transformers, or the repository's own code, knows the model."""
    has_type = config.get("model_type") in CONFIG_MAPPING_NAMES
    return has_type or bool(task_of_type(config) or config.get("auto_map"))


def upgrade_hint(config: Mapping[str, Any]) -> str:
    """The transformers release to install, if a newer one than ours wrote the config.json; else empty.

    Also empty if the model is known: another release would not make it a text generator.
    """
    try:
        config_version = Version(str(config.get("transformers_version")))
        installed_version = Version(transformers.__version__)
    except InvalidVersion:
        return ""
    if is_known(config) or config_version <= installed_version:
        return ""
    release = config_version.base_version
    return (
        f"transformers {installed_version} is installed, but {config_version} wrote its config.json: "
        f'pip3 install "transformers>={release}"'
    )
