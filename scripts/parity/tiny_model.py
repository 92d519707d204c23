"""Writes a folder with a tiny random model of any type that transformers registers.

Knows transformers' auto classes and files; does not know how the model is run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from scripts.parity.overrides import OVERRIDES
from scripts.parity.sizes import VOCAB
from scripts.parity.tiny_config import shrink

SEED = 1
# Far larger than in trained models, so that the most likely token is clear and an error changes it.
STD, VECTOR_STD = 0.2, 0.05


@dataclass(frozen=True, slots=True)
class ModelType:
    """A registered type: its model_type, its class, and whether it is an encoder-decoder model."""

    type: str
    architecture: str
    is_encoder_decoder: bool


def list_types() -> Iterator[ModelType]:
    """Every type that transformers registers for text generation."""
    for type, architecture in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        yield ModelType(type, architecture, False)
    for type, architecture in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.items():
        yield ModelType(type, architecture, True)


def config_of(model_type: ModelType) -> Any:
    """The type's default config, shrunk."""
    default_config = AutoConfig.for_model(model_type.type)
    settings = merge(shrink(default_config.to_dict()), OVERRIDES.get(model_type.type, {}))
    if not model_type.is_encoder_decoder and hasattr(default_config, "is_decoder"):
        settings |= {"is_decoder": True, "is_encoder_decoder": False}
    start = getattr(default_config, "decoder_start_token_id", None)
    if model_type.is_encoder_decoder and default_config.is_encoder_decoder and start is None:
        settings["decoder_start_token_id"] = 1
    return CONFIG_MAPPING[model_type.type](**settings)


def merge(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, merged key by key in nested settings."""
    result = dict(settings)
    for name, value in changes.items():
        is_nested = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
        result[name] = merge(result[name], value) if is_nested else value
    return result


def save(model_type: ModelType, folder: Path) -> None:
    """Write config, random weights and a tokenizer to `folder`."""
    config = config_of(model_type)
    family = AutoModelForSeq2SeqLM if model_type.is_encoder_decoder else AutoModelForCausalLM
    torch.manual_seed(SEED)
    model = family.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        # Biases and norms stay near their initial values: if they outweigh the input, all logits are alike.
        is_vector = parameter.dim() < 2
        parameter.data.mul_(float(is_vector)).add_(
            torch.randn_like(parameter), alpha=VECTOR_STD if is_vector else STD
        )
    model.save_pretrained(folder)
    if type(model.config) is not type(config):  # from_config has built the text model within the type
        config.architectures = [model_type.architecture]
        config.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one word for each id."""
    words = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{id}": id for id in range(3, VOCAB)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
