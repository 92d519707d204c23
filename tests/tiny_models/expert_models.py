"""Tiny mixtures of experts, and their GGUF files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from inference.model.load.formats import read_config
from tests.tiny_models.gguf_files import write_experts, write_gpt_oss

QWEN3_MOE_SIZES = {
    "vocab_size": 96,
    "max_position_embeddings": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
}
GPT_OSS_SIZES = {
    "vocab_size": 96,
    "max_position_embeddings": 256,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 4,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 1e4}

OpenFile = Callable[..., tuple[Any, Any]]


def qwen3_moe() -> Any:
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3_moe", **QWEN3_MOE_SIZES)).eval()


def gpt_oss() -> Any:
    torch.manual_seed(3)
    config = AutoConfig.for_model("gpt_oss", **GPT_OSS_SIZES)
    config.rope_parameters |= YARN
    model = AutoModelForCausalLM.from_config(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


def write_file(family: str, value_type: str, path: Path) -> Path:
    """The GGUF file of a tiny model, whose experts have values of `value_type`."""
    make_model, write = {"qwen3_moe": (qwen3_moe, write_experts), "gpt_oss": (gpt_oss, write_gpt_oss)}[family]
    return write(make_model(), path, gguf.GGMLQuantizationType[value_type])


def load_file(source: Path, open_file: OpenFile) -> Any:
    """The model of a GGUF file in float32, as `open_file` reads its weights: none is missing."""
    config = read_config(source, trust_remote_code=False)
    model, missing = open_file(AutoModelForCausalLM, source, config=config, dtype=torch.float32)
    assert not missing
    return model.eval()
