"""A GGUF file with a tensor that no parameter takes is refused, unless the tensor changes nothing."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from inference.errors import BadRequest
from inference.model.load.formats import FORMATS
from inference.model.load.gguf.file.header import GgufHeader, GgufTensor
from inference.model.load.gguf.tensors.unused_tensors import unused_tensors
from inference.model.load.loader import load
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import write

SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
EXPERTS = {"moe_intermediate_size": 32, "num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1}
MORE = SIZES | EXPERTS | {"num_key_value_heads": 2, "vocab_size": 32, "head_dim": 16}


def unused(architecture: str, model_type: str, *names: str) -> tuple[str, ...]:
    """What is unused of a file with such tensors, and the embedding."""
    shapes = {"ffn_gate_exps.weight": (32, 32, 2), "ffn_gate_exps.bias": (32, 2), "output.weight": (32, 32)}
    tensors = [
        GgufTensor(name, next((shapes[end] for end in shapes if name.endswith(end)), (32,)), 0, 0)
        for name in ("token_embd.weight", *names)
    ]
    header = GgufHeader(len(tensors), texts={"general.architecture": architecture}, tensors=tensors)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **MORE))
    return unused_tensors(header, model)


@pytest.mark.parametrize(
    ("architecture", "model_type", "used", "further"),
    [
        ("llama", "llama", "blk.0.attn_q.weight", "blk.0.attn_q.bias"),
        ("llama", "llama", "rope_freqs.weight", "output.bias"),
        ("llama", "llama", "blk.0.attn_rot_embd", "blk.0.ffn_gate_exps.weight"),
        ("llama", "llama", "blk.0.ffn_up.weight", "blk.1.ffn_up.weight"),
        ("qwen3moe", "qwen3_moe", "blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate_exps.bias"),
        ("gpt-oss", "gpt_oss", "blk.0.ffn_gate_exps.bias", "blk.0.ffn_gate_shexp.weight"),
        ("gpt-oss", "gpt_oss", "blk.0.attn_sinks.weight", "blk.0.attn_q_norm.weight"),
        ("gpt2", "gpt2", "output.weight", "output.bias"),
    ],
)
def test_what_no_parameter_takes_is_named(
    architecture: str, model_type: str, used: str, further: str
) -> None:
    assert unused(architecture, model_type, used, further) == (further,)


@pytest.mark.parametrize("formats", [FORMATS, KEPT_FORMATS], ids=["dequantized", "packed"])
def test_such_a_file_is_not_loaded(tmp_path: Path, formats: tuple) -> None:  # type: ignore[type-arg]
    further = {"output.bias": np.ones(320, np.float32)}
    path = write(tiny.llama(tmp_path / "llama"), tmp_path / "a.gguf", further=further)
    with pytest.raises(BadRequest, match=r"1 tensor that the model would ignore, such as output\.bias"):
        load(path, ModelSettings(dtype="float32", device="cpu"), formats=formats)
