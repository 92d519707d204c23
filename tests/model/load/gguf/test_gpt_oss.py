"""A gpt-oss GGUF file as llama.cpp's converter makes it: its config, its parameters, its MXFP4 experts."""

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from inference.model.gguf.kept_bits import bytes_saved
from inference.model.gguf.packed_file import open_keeping_bits
from inference.model.load.formats import open_gguf, read_config
from inference.model.load.gguf.header import read_header
from inference.model.memory_usage import weight_bytes
from inference.model.quantization.packed_tensor import PackedExperts, PackedTensor, PackedWeight
from tests.gguf_files import write_gpt_oss

IDS = torch.arange(5, 17)[None]
SIZES = {
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


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(3)
    config = AutoConfig.for_model("gpt_oss", **SIZES)
    config.rope_parameters |= YARN
    gpt_oss = AutoModelForCausalLM.from_config(config).eval()
    for weight in gpt_oss.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return gpt_oss


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, model: Any) -> Path:
    path = tmp_path_factory.mktemp("oss") / "tiny.gguf"
    return write_gpt_oss(model, path, gguf.GGMLQuantizationType.MXFP4)


def load_model(source: Path, open_file: Any) -> Any:
    config = read_config(source, trust_remote_code=False)
    loaded, missing = open_file(AutoModelForCausalLM, source, config=config, dtype=torch.float32)
    assert not missing
    return loaded.eval()


def test_the_config_is_that_of_the_model(model: Any, source: Path) -> None:
    config = read_config(source, trust_remote_code=False)
    for name in (*SIZES, "layer_types", "rope_parameters", "swiglu_limit", "tie_word_embeddings"):
        assert getattr(config, name) == getattr(model.config, name), name


def test_unquantized_values_are_those_of_the_model(model: Any, tmp_path: Path) -> None:
    path = write_gpt_oss(model, tmp_path / "plain.gguf", gguf.GGMLQuantizationType.F32)
    parameters = dict(load_model(path, open_gguf).named_parameters())
    for name, weight in model.named_parameters():
        if ".experts." in name or weight.dim() == 1 or "router" in name:
            assert torch.equal(parameters[name], weight), name


def test_experts_keep_the_bits_of_the_file(source: Path) -> None:
    plain_model, packed_model = load_model(source, open_gguf), load_model(source, open_keeping_bits)
    kinds: dict[str, type] = {}
    for (name, plain), weight in zip(plain_model.named_parameters(), packed_model.parameters(), strict=True):
        kinds[name.rpartition(".")[2]] = type(weight)
        assert torch.equal(weight.values() if isinstance(weight, PackedTensor) else weight, plain), name
    assert kinds["gate_up_proj"] is kinds["down_proj"] is PackedExperts
    assert isinstance(packed_model.lm_head.weight, PackedWeight)


def test_products_differ_by_the_rounding_of_their_inputs(source: Path) -> None:
    plain_model, packed_model = load_model(source, open_gguf), load_model(source, open_keeping_bits)
    with torch.inference_mode():
        right, logits = plain_model(IDS).logits, packed_model(IDS).logits
    assert 0 < (logits - right).abs().max() < 0.1 * right.std()


def test_the_bytes_saved_are_predicted(source: Path) -> None:
    data = source.read_bytes()
    header = read_header(lambda start, stop: data[start:stop], len(data), len(data))
    plain_bytes, packed_bytes = (
        weight_bytes(load_model(source, each))["cpu"] for each in (open_gguf, open_keeping_bits)
    )
    assert plain_bytes - packed_bytes == bytes_saved(header, torch.float32) > 0
