"""Tensor processors for architectures that transformers has with some of their models only."""

import re
from importlib import import_module
from typing import Any

import numpy as np
import torch

from inference.model.load.gguf.tensors.tensor_processor import Array, PlainProcessor, ProcessedTensor

LOADER = "transformers.modeling_gguf_pytorch_utils"  # imported for GGUF files only: that takes 0.3 s
SHARED_GATE, EXPERTS = ".ffn_gate_inp_shexp.", "_exps."  # in names of tensors
LAYER_SCALE = ".layer_output_scale.weight"
GEMMA4_STACKS = (".ffn_gate_up_exps.weight", ".ffn_down_exps.weight")
ROUTER_SCALE = re.compile(r"layers\.(?P<layer>\d+)\.router\.(?P<scale>scale|per_expert_scale)$")
ROUTER_SCALES = {"scale": "ffn_gate_inp", "per_expert_scale": "ffn_down_exps"}
QKV = re.compile(r"blk\.(?P<layer>\d+)\.attn_qkv\.(?P<kind>weight|bias)")
HEAD_NORM = re.compile(r"blk\.(?P<layer>\d+)\.attn_(?P<matrix>q|k)_norm\.weight")


class Qwen2MoeProcessor(PlainProcessor):
    """Takes the gate of the shared expert as a matrix of one row, too; transformers expects a vector."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.experts = import_module(LOADER).Qwen2MoeTensorProcessor(config)

    def perform_fallback_tensor_mapping(
        self, gguf_to_hf_name_map: dict[str, str], suffix: str, qual_name: str, hf_name: str
    ) -> None:
        self.experts.perform_fallback_tensor_mapping(gguf_to_hf_name_map, suffix, qual_name, hf_name)

    def process(self, weights: Array, name: str, **options: Any) -> Any:
        if SHARED_GATE in name:
            return ProcessedTensor(weights.reshape(1, -1), name, {})
        return self.experts.process(weights, name, **options)


class LlamaProcessor(Qwen2MoeProcessor):
    """Takes Mixtral's experts too, which are in files of the architecture llama."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.llama = import_module(LOADER).LlamaTensorProcessor(config)

    def process(self, weights: Array, name: str, **options: Any) -> Any:
        if EXPERTS in name:
            return super().process(weights, name, **options)
        return self.llama.process(weights, name, **options)


class Gemma4Processor(PlainProcessor):
    """Takes scales of layers, routers and experts, and stacks of experts; transformers has none of them."""

    def perform_fallback_tensor_mapping(
        self, gguf_to_hf_name_map: dict[str, str], suffix: str, qual_name: str, hf_name: str
    ) -> None:
        match = ROUTER_SCALE.search(hf_name)
        if match:
            name = f"blk.{match['layer']}.{ROUTER_SCALES[match['scale']]}.scale"
            gguf_to_hf_name_map[name] = qual_name + hf_name

    def process(self, weights: Array, name: str, **options: Any) -> ProcessedTensor:
        short = name.removesuffix(".weight")
        if name.endswith(LAYER_SCALE):
            return ProcessedTensor(weights, short, {})
        if not name.endswith(GEMMA4_STACKS) or short not in options["tensor_key_mapping"]:
            return ProcessedTensor(weights, name, {})
        parameter = options["tensor_key_mapping"][short]
        options["parsed_parameters"]["tensors"][parameter] = torch.from_numpy(np.array(weights))
        return ProcessedTensor(weights, None, {})


class FalconProcessor(PlainProcessor):
    """Groups queries, keys and values by heads of keys; a file has all queries, then keys, then values.

    llama.cpp's converter orders them so (conversion/falcon.py).
    """

    def process(self, weights: Array, name: str, **options: Any) -> ProcessedTensor:
        if QKV.fullmatch(name):
            weights = self.group(weights)
        return ProcessedTensor(weights, name, {})

    def group(self, weights: Array) -> Array:
        num_heads, groups = self.config["num_attention_heads"], self.config.get("num_kv_heads", 1)
        head_dim, columns = len(weights) // (num_heads + 2 * groups), weights.shape[1:]
        ends = num_heads * head_dim, (num_heads + groups) * head_dim
        split = [
            rows.reshape(groups, -1, head_dim, *columns) for rows in np.split(weights, ends)
        ]  # (groups, heads of a group, head_dim, …)
        return np.concatenate(split, axis=1).reshape(weights.shape)


class Phi2Processor(PlainProcessor):
    """Divides the queries, keys and values of files of 2023, which have them in one matrix."""

    def process(self, weights: Array, name: str, **options: Any) -> ProcessedTensor:
        match = QKV.fullmatch(name)
        if not match:
            return ProcessedTensor(weights, name, {})
        for matrix, rows in zip("qkv", np.split(np.array(weights), 3), strict=True):
            parameter = f"model.layers.{match['layer']}.self_attn.{matrix}_proj.{match['kind']}"
            options["parsed_parameters"]["tensors"][parameter] = torch.from_numpy(rows)
        return ProcessedTensor(weights, None, {})


class StablelmProcessor(PlainProcessor):
    """Splits the norms of heads, which a file has stacked: (heads, head_dim)."""

    def process(self, weights: Array, name: str, **options: Any) -> ProcessedTensor:
        match = HEAD_NORM.fullmatch(name)
        if not match:
            return ProcessedTensor(weights, name, {})
        module_name = f"model.layers.{match['layer']}.self_attn.{match['matrix']}_layernorm.norms"
        for head, values in enumerate(weights):
            options["parsed_parameters"]["tensors"][f"{module_name}.{head}.weight"] = torch.tensor(values)
        return ProcessedTensor(weights, None, {})
