"""Fields of a config that only the tensor table of a GGUF file states: which modules have a bias.

llama.cpp loads these biases where a file has them (src/models/llama.cpp); no setting says it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from inference.model.load.gguf.file.header import GgufHeader

# field of the config → the biases of a layer that it stands for
BIASES: Mapping[str, re.Pattern[str]] = {
    "attention_bias": re.compile(r"blk\.\d+\.attn_(q|k|v|output)\.bias"),
    "mlp_bias": re.compile(r"blk\.\d+\.ffn_(gate|up|down)\.bias"),
}
# Biases that a file may have without the others of their field.
OPTIONAL = re.compile(r"model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)\.bias")


def apply_biases(config: Any, header: GgufHeader) -> None:
    """Set the fields that the config has, where the file has such biases."""
    for field, pattern in BIASES.items():
        if hasattr(config, field) and any(pattern.fullmatch(each.name) for each in header.tensors or ()):
            setattr(config, field, True)


def required(missing: Iterable[str]) -> set[str]:
    """Names of missing parameters without those of biases: transformers sets a missing bias to 0."""
    return {name for name in missing if not OPTIONAL.fullmatch(name)}
