"""The tensors of a gpt-oss GGUF file as parameters: transformers knows none of llama.cpp's names for experts.

A layer's experts are two transposed stacks in the model: in `gate_up_proj`, the outputs of gate and up
alternate. The file has gate, up and down apart (llama.cpp, conversion/gpt_oss.py).
"""

import re
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

ARCHITECTURE = "gpt-oss"
EXPERTS = re.compile(r"blk\.(?P<layer>\d+)\.ffn_(?P<matrix>gate|up|down)_exps\.(?P<kind>weight|bias)")
SINKS, WEIGHT = "attn_sinks.weight", ".weight"
FIRST_OUTPUT = {"gate": 0, "up": 1}


class ProcessedTensor(NamedTuple):
    """A tensor for transformers' loader. name: None if it was placed."""

    weights: np.ndarray[Any, Any]
    name: str | None
    metadata: dict[str, Any]


class GptOssProcessor:
    """A tensor processor as transformers' loader uses it."""

    def __init__(self, config: Any = None) -> None:
        pass

    def preprocess_name(self, hf_name: str) -> str:
        return hf_name

    def perform_fallback_tensor_mapping(
        self, gguf_to_hf_name_map: dict[str, str], suffix: str, qual_name: str, hf_name: str
    ) -> None:
        """Names without an entry in gguf-py's table are those of experts, which `process` places."""

    def process(
        self, weights: np.ndarray[Any, Any], name: str, parsed_parameters: Any, **options: Any
    ) -> ProcessedTensor:
        """Place a tensor of the experts among the parameters; return others as they are."""
        if match := EXPERTS.fullmatch(name):
            place_experts(
                parsed_parameters["tensors"], torch.from_numpy(np.array(weights)), **match.groupdict()
            )
            return ProcessedTensor(weights, None, {})
        # The sinks are a parameter of their own in the model, and have no suffix there.
        return ProcessedTensor(weights, name.removesuffix(WEIGHT) if name.endswith(SINKS) else name, {})


def place_experts(
    parameters: dict[str, Tensor], values: Tensor, *, layer: str, matrix: str, kind: str
) -> None:
    """values: (experts, outputs, inputs) of a weight, (experts, outputs) of a bias."""
    values = values.mT if kind == "weight" else values
    stack = "down_proj" if matrix == "down" else "gate_up_proj"
    name = f"model.layers.{layer}.mlp.experts.{stack}{'' if kind == 'weight' else '_bias'}"
    if matrix == "down":
        parameters[name] = values.contiguous()
        return
    shape = (*values.shape[:-1], 2 * values.shape[-1])
    both = parameters.setdefault(name, torch.zeros(shape, dtype=values.dtype))
    both[..., FIRST_OUTPUT[matrix] :: 2] = values
