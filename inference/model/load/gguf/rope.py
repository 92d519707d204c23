"""The scaling of rotary positions that a GGUF file states: transformers ignores it, or misreads it."""

from collections.abc import Mapping
from typing import Any

from inference.model.load.gguf.header import GgufHeader

SCALING = ".rope.scaling."  # after the architecture, in names of settings (gguf-py, constants.py: Keys.Rope)
SCALING_TYPES = ("linear", "yarn")
# The file's key → the one of a config's rope_parameters.
PARAMETERS: Mapping[str, str] = {
    "factor": "factor",
    "original_context_length": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
FULL_ATTENTION = "full_attention"  # the layers whose positions are scaled, where kinds of layers differ


def rope_scaling_of(header: GgufHeader) -> dict[str, Any]:
    """The scaling as rope_parameters have it; empty if there is none, or transformers has not its type."""
    begin = header.architecture + SCALING
    kind = header.texts.get(f"{begin}type", "")
    if kind not in SCALING_TYPES:
        return {}
    values = {PARAMETERS[key]: header.numbers.get(begin + key) for key in PARAMETERS}
    return {"rope_type": kind} | {name: value for name, value in values.items() if value is not None}


def apply_rope_scaling(config: Any, header: GgufHeader) -> None:
    """Add the file's scaling to the rope_parameters of its config, where the config has any."""
    scaling, parameters = rope_scaling_of(header), getattr(config, "rope_parameters", None)
    if not scaling or not parameters:
        return
    if any(isinstance(value, Mapping) for value in parameters.values()):
        parameters.setdefault(FULL_ATTENTION, {}).update(scaling)
    else:
        parameters.update(scaling)
