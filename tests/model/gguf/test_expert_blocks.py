"""A mixture of experts keeps the bits of its GGUF file: a matrix for each expert, with the file's values."""

from pathlib import Path

import pytest
import torch

from inference.model.gguf.kept_bits import bytes_saved
from inference.model.gguf.packed_file import open_keeping_bits
from inference.model.load.formats import open_gguf
from inference.model.load.gguf.file.header import read_header
from inference.model.memory_usage import weight_bytes
from inference.model.quantization.packed_tensor import PackedExperts, PackedTensor
from tests.tiny_models.expert_models import load_file, write_file

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])
NOT_PACKED = ("mlp.gate.", "mlp.router.", "bias")  # of the parameters with more than one dimension
KINDS = [*(("qwen3_moe", name) for name in ("Q8_0", "Q5_1", "MXFP4", "F16")), ("gpt_oss", "MXFP4")]


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def source(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return write_file(*request.param, tmp_path_factory.mktemp("experts") / "tiny.gguf")


def test_every_expert_has_the_values_of_its_rows(source: Path) -> None:
    plain_model, packed_model = load_file(source, open_gguf), load_file(source, open_keeping_bits)
    stacks = 0
    for (name, plain), weight in zip(plain_model.named_parameters(), packed_model.parameters(), strict=True):
        is_packed = plain.dim() > 1 and not any(each in name for each in NOT_PACKED)
        assert isinstance(weight, PackedTensor) is is_packed, name
        stacks += isinstance(weight, PackedExperts)
        assert torch.equal(weight.values() if isinstance(weight, PackedTensor) else weight, plain), name
    assert stacks == 4


def test_products_differ_by_the_rounding_of_their_inputs(source: Path) -> None:
    plain_model, packed_model = load_file(source, open_gguf), load_file(source, open_keeping_bits)
    with torch.inference_mode():
        right, logits = plain_model(IDS).logits, packed_model(IDS).logits
    assert 0 < (logits - right).abs().max() < 0.1 * right.std()


def test_the_bytes_saved_are_predicted(source: Path) -> None:
    data = source.read_bytes()
    header = read_header(lambda start, stop: data[start:stop], len(data), len(data))
    plain_bytes, packed_bytes = (
        weight_bytes(load_file(source, each))["cpu"] for each in (open_gguf, open_keeping_bits)
    )
    assert plain_bytes - packed_bytes == bytes_saved(header, torch.float32) > 0
