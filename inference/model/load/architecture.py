"""Decides from config.json and file names alone whether a model can be served.

Knows the architectures of the installed transformers. Used before a download as well as at load.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import transformers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from inference.finding import join_names
from inference.model.load.tasks import task_of_type, task_that_excludes_text

GENERATIVE_TYPES = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
# Registered by transformers as generating text, but unusable as text generators.
EXCLUDED_TYPES = {
    "gemma4_assistant": "drafts tokens for another model, from that model's KV cache",
    "gemma4_unified_assistant": "drafts tokens for another model, from that model's KV cache",
    "musicgen": "generates audio codes, not text",
    "musicgen_melody": "generates audio codes, not text",
    "voxtral_realtime": "needs audio input for each token of text",
}
TEXT_ONLY = "this server serves models that continue text: choose one"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")


def why_unsupported(config: Mapping[str, Any]) -> str:
    """Why the model of a config.json cannot be served; empty when it can, possibly with its own code."""
    kind = config.get("model_type")
    if kind in EXCLUDED_TYPES:
        return f"is of the type {kind!r}, which {EXCLUDED_TYPES[kind]}"
    if has_remote_code(config):
        return ""
    if kind in GENERATIVE_TYPES:
        task = task_that_excludes_text(config)
        return f"has weights of {config['architectures'][0]}, which {task}; {TEXT_ONLY}" if task else ""
    if task := task_of_type(config):
        return f"is of the type {kind!r}, which {task}; {TEXT_ONLY}"
    if own_classes := {*(config.get("auto_map") or ())} - {"AutoConfig", "AutoTokenizer", "AutoProcessor"}:
        return f"has its own code for {join_names(sorted(own_classes))}, and none that generates text"
    if not kind:
        return "has no model_type in its config.json: fetch the file again, or choose another model"
    return (
        f"is of the type {kind!r}, which transformers {transformers.__version__} does not know; "
        "a newer release may: pip3 install --upgrade transformers"
    )


def requires_remote_code(config: Mapping[str, Any]) -> bool:
    """Whether the model runs only with the Python code in its repository."""
    return has_remote_code(config) and config.get("model_type") not in GENERATIVE_TYPES


def has_remote_code(config: Mapping[str, Any]) -> bool:
    return bool({"AutoModelForCausalLM", "AutoModelForSeq2SeqLM"} & set(config.get("auto_map") or {}))


def auto_class_of(config: Any) -> Any:
    """The auto class that loads a model. Models that also read audio are registered as seq2seq."""
    kind = config.model_type
    listens = kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.keys() - MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder or listens else AutoModelForCausalLM


def why_no_weights(names: Iterable[str]) -> str:
    """The error message for a model whose files, `names`, include no safetensors."""
    pickles = sorted(name for name in names if name.endswith(PICKLES))
    if not pickles:
        return "has no *.safetensors weights"
    converter = " with python -m scripts.convert MODEL FOLDER" if is_convertible(pickles) else ""
    return (
        f"has only {pickles[0]}, a pickle, which can run code when it is read: convert it to safetensors"
        f"{converter}, or set ALLOW_PICKLE = True if you trust its authors"
    )


def is_convertible(pickles: Iterable[str]) -> bool:
    """Whether scripts/convert.py converts them, and ALLOW_PICKLE loads them."""
    return any(name.startswith("pytorch_model") and name.endswith(".bin") for name in pickles)
