"""The tensors of a gpt-oss GGUF file as parameters: transformers knows none of llama.cpp's names for experts.

A layer's experts are two transposed stacks in the model: in `gate_up_proj`, the outputs of gate and up
alternate. The file has gate, up and down apart (llama.cpp, conversion/gpt_oss.py).
"""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.model.load.gguf.tensors.tensor_processor import Array, PlainProcessor, ProcessedTensor

EXPERTS = re.compile(r"blk\.(?P<layer>\d+)\.ffn_(?P<matrix>gate|up|down)_exps\.(?P<kind>weight|bias)")
SINKS, WEIGHT = "attn_sinks.weight", ".weight"
FIRST_OUTPUT = {"gate": 0, "up": 1}


class GptOssProcessor(PlainProcessor):
    """gguf-py's table has no names of experts, which `process` places."""

    def process(self, weights: Array, name: str, **options: Any) -> ProcessedTensor:
        """Place a tensor of the experts among the parameters; return others as they are."""
        if match := EXPERTS.fullmatch(name):
            parameters = options["parsed_parameters"]["tensors"]
            place_experts(parameters, torch.from_numpy(np.array(weights)), **match.groupdict())
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
