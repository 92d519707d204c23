"""A mixture of experts keeps the bits of its GGUF file: a matrix for each expert, with the file's values."""

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
from inference.model.quantization.packed_tensor import PackedExperts, PackedTensor
from tests.gguf_files import write_experts

IDS = torch.tensor([[5, 6, 7, 8]])
SIZES = {
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


@pytest.fixture(scope="module", params=["Q8_0", "Q5_1", "MXFP4", "F16"])
def source(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    config = AutoConfig.for_model("qwen3_moe", **SIZES)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    path = tmp_path_factory.mktemp("experts") / "tiny.gguf"
    return write_experts(model, path, gguf.GGMLQuantizationType[request.param])


def load_model(source: Path, open_file: Any) -> Any:
    config = read_config(source, trust_remote_code=False)
    model, missing = open_file(AutoModelForCausalLM, source, config=config, dtype=torch.float32)
    assert not missing
    return model.eval()


def test_every_expert_has_the_values_of_its_rows(source: Path) -> None:
    plain_model, packed_model = load_model(source, open_gguf), load_model(source, open_keeping_bits)
    stacks = 0
    for (name, plain), weight in zip(plain_model.named_parameters(), packed_model.parameters(), strict=True):
        assert isinstance(weight, PackedTensor) is (plain.dim() > 1 and "mlp.gate." not in name), name
        stacks += isinstance(weight, PackedExperts)
        assert torch.equal(weight.values() if isinstance(weight, PackedTensor) else weight, plain), name
    assert stacks == 4


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
