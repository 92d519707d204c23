"""The models whose speed is estimated and measured: shapes with few layers and random weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from scripts.bench.models import SHAPES, byte_tokenizer
from scripts.preflight.speed.random_gguf import FILE_TYPES, write_gguf

LAYERS: Mapping[str, int] = {"77m": 16, "0.5b": 8, "1b": 4}  # of each shape: a small file loads soon


@dataclass(frozen=True, slots=True)
class SpeedCase:
    """A model and how to serve it.

    shape      name in LAYERS
    file_type  of the GGUF file; empty: safetensors in bfloat16
    settings   the server's settings that differ from the defaults
    """

    shape: str
    file_type: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return " ".join((self.shape, self.file_type or " ".join(map(str, self.settings.values()))))


CASES = (
    *(
        SpeedCase(shape, settings=settings)
        for shape in LAYERS
        for settings in ({"DTYPE": "bfloat16"}, {"QUANTIZE": "int8"}, {"QUANTIZE": "int4"})
    ),
    SpeedCase("77m", settings={"DTYPE": "float32"}),
    *(SpeedCase(shape, file_type) for shape in ("77m", "1b") for file_type in FILE_TYPES),
)


def write_model(case: SpeedCase, folder: Path) -> Path:
    """The model's folder, or its GGUF file; written if it is missing."""
    config = SHAPES[case.shape]()
    config.num_hidden_layers = LAYERS[case.shape]
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    if case.file_type:
        path = folder / f"{case.shape}-{case.file_type}.gguf"
        if not path.exists():
            write_gguf(config, case.file_type, path)
        return path
    path = folder / case.shape
    if not path.exists():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(path)
        byte_tokenizer(config.vocab_size).save_pretrained(path)
    return path
