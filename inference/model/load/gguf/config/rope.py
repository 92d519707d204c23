"""Rotary positions as a GGUF file states them: their scaling, and how many values of a head rotate.

transformers ignores both, or misreads them.
"""

from collections.abc import Mapping
from typing import Any

from inference.model.load.gguf.file.header import GgufHeader

SCALING = ".rope.scaling."  # after the architecture, in names of settings (gguf-py, constants.py: Keys.Rope)
LINEAR, YARN = "linear", "yarn"
SCALING_TYPES = (LINEAR, YARN)
OLD_FACTOR = "rope.scale_linear"  # of old files, which state no type
PARTIAL = "partial_rotary_factor"
# The file's key → the one of a config's rope_parameters.
PARAMETERS: Mapping[str, str] = {
    "factor": "factor",
    "original_context_length": "original_max_position_embeddings",
    "yarn_attn_factor": "attention_factor",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
FULL_ATTENTION = "full_attention"  # the layers whose positions are scaled, where kinds of layers differ


def rope_scaling_of(header: GgufHeader) -> dict[str, Any]:
    """The scaling as rope_parameters have it; empty if there is none, or transformers has not its type.

    A factor without a type is linear, and a factor of 0 is none, as in llama.cpp (src/llama-model.cpp).
    """
    begin = header.architecture + SCALING
    kind = header.texts.get(f"{begin}type", LINEAR)
    values = {PARAMETERS[key]: header.numbers.get(begin + key) for key in PARAMETERS}
    values["factor"] = values["factor"] or header.number(OLD_FACTOR)
    if kind not in SCALING_TYPES or values["factor"] in (None, 0, 1):
        return {}
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


def apply_rope_dimensions(config: Any, header: GgufHeader) -> None:
    """Set the fraction of a head's values that rotate, where the config has one and the file states them."""
    parameters = getattr(config, "rope_parameters", None) or {}
    dimensions = header.number("rope.dimension_count")
    if dimensions and PARTIAL in parameters:
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        parameters[PARTIAL] = dimensions / head_dim
