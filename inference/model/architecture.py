"""Which models can be served, told from their config.json and file names alone.

Knows the architectures of the installed transformers. Used before a download as well as at load.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import transformers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

GENERATING = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
# Registered as generating text, and not made to be asked for it.
OTHERWISE = {
    "gemma4_assistant": "drafts for another model, out of that model's keys and values",
    "gemma4_unified_assistant": "drafts for another model, out of that model's keys and values",
    "musicgen": "answers with the codes of sounds, not with text",
    "musicgen_melody": "answers with the codes of sounds, not with text",
    "voxtral_realtime": "reads speech along with each token of text",
}
PICKLES = (".bin", ".pt", ".pth", ".ckpt")


def unserved(config: Mapping[str, Any]) -> str:
    """Why the model of a config.json cannot be served; empty when it can, be it with its own code."""
    kind = config.get("model_type")
    if kind in OTHERWISE:
        return f"is of the type {kind!r}, which {OTHERWISE[kind]}"
    if kind in GENERATING or has_code(config):
        return ""
    if kind in CONFIG_MAPPING_NAMES:
        return f"is of the type {kind!r}, which does not generate text"
    return (
        f"is of the type {kind!r}, which transformers {transformers.__version__} does not know; "
        "a newer one may: pip3 install --upgrade transformers"
    )


def needs_code(config: Mapping[str, Any]) -> bool:
    """Whether it runs only with the Python code it brings."""
    return has_code(config) and config.get("model_type") not in GENERATING


def has_code(config: Mapping[str, Any]) -> bool:
    return bool({"AutoModelForCausalLM", "AutoModelForSeq2SeqLM"} & set(config.get("auto_map") or {}))


def family_of(config: Any) -> Any:
    """The auto class that opens a model. Those that speech is given to as well are registered as seq2seq."""
    kind = config.model_type
    listens = kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.keys() - MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder or listens else AutoModelForCausalLM


def no_weights(names: Iterable[str]) -> str:
    """What to say of files with no safetensors among them."""
    pickles = sorted(name for name in names if name.endswith(PICKLES))
    if not pickles:
        return "has no *.safetensors weights"
    return (
        f"has only {pickles[0]}, a pickle, which can run code when it is read: convert it to safetensors, "
        "or set ALLOW_PICKLE = True if you trust its authors"
    )
