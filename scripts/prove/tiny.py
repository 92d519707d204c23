"""A folder with a tiny random model of any type that transformers registers, as one would be downloaded.

Knows transformers' auto classes and files; not how the model is run.
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

from scripts.prove.oddities import ODDITIES
from scripts.prove.shrink import shrunk
from scripts.prove.sizes import VOCAB

SEED = 1
# Weights far larger than trained ones: the most probable token is then clear, and every fault shows.
SPREAD, JITTER = 0.2, 0.05


@dataclass(frozen=True, slots=True)
class Kind:
    """A registered type: what a config.json calls it, its class, whether it is among the seq2seq."""

    type: str
    architecture: str
    encodes: bool


def kinds() -> Iterator[Kind]:
    """Every type that the installed transformers registers for generating text."""
    for type, architecture in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        yield Kind(type, architecture, False)
    for type, architecture in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.items():
        yield Kind(type, architecture, True)


def config_of(kind: Kind) -> Any:
    """The type's own config, shrunk."""
    own = AutoConfig.for_model(kind.type)
    settings = merged(shrunk(own.to_dict()), ODDITIES.get(kind.type, {}))
    if not kind.encodes and hasattr(own, "is_decoder"):
        settings |= {"is_decoder": True, "is_encoder_decoder": False}
    if kind.encodes and own.is_encoder_decoder and getattr(own, "decoder_start_token_id", None) is None:
        settings["decoder_start_token_id"] = 1
    return CONFIG_MAPPING[kind.type](**settings)


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, key by key in settings that are nested."""
    both = dict(settings)
    for name, value in changes.items():
        deep = isinstance(value, Mapping) and isinstance(both.get(name), Mapping)
        both[name] = merged(both[name], value) if deep else value
    return both


def save(kind: Kind, folder: Path) -> None:
    """Write config, random weights and a tokenizer to `folder`."""
    config = config_of(kind)
    family = AutoModelForSeq2SeqLM if kind.encodes else AutoModelForCausalLM
    torch.manual_seed(SEED)
    model = family.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        # Biases and norms stay near what they begin as: where they outweigh the input, all tokens are alike.
        vector = parameter.dim() < 2
        parameter.data.mul_(float(vector)).add_(
            torch.randn_like(parameter), alpha=JITTER if vector else SPREAD
        )
    model.save_pretrained(folder)
    if type(model.config) is not type(config):  # the class is that of a part: its text model
        config.architectures = [kind.architecture]
        config.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def tokenizer() -> PreTrainedTokenizerFast:
    """A word for each id."""
    words = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{id}": id for id in range(3, VOCAB)}
    made = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
