"""A GGUF file served with its bits computes with exactly the values that it has dequantized."""

from pathlib import Path

import gguf
import pytest
import torch

from inference.model.gguf import kept_bits
from inference.model.gguf.kept_bits import bytes_saved
from inference.model.gguf.packed_file import row_order
from inference.model.load.formats import FORMATS
from inference.model.load.gguf.file.header import GgufTensor, read_header
from inference.model.load.gguf.tensors.processors import processors
from inference.model.load.loader import load
from inference.model.memory_usage import weight_bytes
from inference.model.quantization.packed_tensor import PackedTensor, PackedWeight
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.tiny_models import tiny
from tests.tiny_models.gguf_files import write

Q8_0 = 8  # a ggml type
IDS = torch.tensor([[5, 6, 7, 8]])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama, in shards: 8-bit matrices, and norms in float32."""
    folder = tmp_path_factory.mktemp("gguf")
    (folder / "file").mkdir()
    return write(tiny.llama(folder / "llama"), folder / "file" / "tiny.gguf", max_tensors=8)


def load_model(source: Path, *, keep_bits: bool, dtype: str = "float32") -> torch.nn.Module:
    formats = KEPT_FORMATS if keep_bits else FORMATS
    return load(source, ModelSettings(dtype=dtype, device="cpu"), formats=formats).model


def test_formats_without_native_products_are_dequantized_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny.llama(tmp_path / "llama", hidden_size=256, intermediate_size=256)
    path = write(folder, tmp_path / "a.gguf", value_type=gguf.GGMLQuantizationType.TQ2_0)
    with caplog.at_level("INFO"):
        model = load_model(path, keep_bits=True)
    assert "a.gguf: weights in TQ2_0 are dequantized to torch.float32" in caplog.messages
    plain_model = load_model(path, keep_bits=False)
    for weight, plain in zip(model.parameters(), plain_model.parameters(), strict=True):
        assert torch.equal(weight, plain)


def test_every_matrix_keeps_its_bits_and_its_values(source: Path) -> None:
    plain_model, packed_model = (load_model(source, keep_bits=keep_bits) for keep_bits in (False, True))
    for (name, plain), weight in zip(plain_model.named_parameters(), packed_model.parameters(), strict=True):
        assert isinstance(weight, PackedWeight) is (plain.dim() == 2), name
        values = weight.values() if isinstance(weight, PackedWeight) else weight
        assert torch.equal(values, plain), name


def test_products_differ_by_the_rounding_of_their_inputs(source: Path) -> None:
    plain_model, packed_model = (load_model(source, keep_bits=keep_bits) for keep_bits in (False, True))
    with torch.inference_mode():
        right, logits = plain_model(IDS).logits, packed_model(IDS).logits
    assert 0 < (logits - right).abs().max() < 0.05 * right.std()


def test_the_fused_runner_serves_them(source: Path) -> None:
    model = load_model(source, keep_bits=True, dtype="bfloat16")
    selected = select_runner(
        model, RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24), RunnerRules(timed=False)
    )
    assert selected.runner_kind == "fused"
    assert isinstance(model.get_input_embeddings().weight, PackedWeight)


def test_the_bytes_saved_are_predicted(tmp_path: Path) -> None:
    file = write(tiny.llama(tmp_path / "llama"), tmp_path / "tiny.gguf")
    data = file.read_bytes()
    header = read_header(lambda start, stop: data[start:stop], len(data), len(data))
    plain_bytes, packed_bytes = (
        weight_bytes(load_model(file, keep_bits=keep_bits)) for keep_bits in (False, True)
    )
    assert plain_bytes["cpu"] - packed_bytes["cpu"] == bytes_saved(header, torch.float32) > 0


@pytest.mark.parametrize("multiplies", [False, True])
def test_float16_is_kept_unless_products_of_bfloat16_are_faster(
    multiplies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.llama(tmp_path / "llama")
    file = write(folder, tmp_path / "tiny.gguf", value_type=gguf.GGMLQuantizationType.F16)
    monkeypatch.setattr(kept_bits, "multiplies_bfloat16", lambda: multiplies)
    for dtype, is_packed in (("float32", True), ("bfloat16", not multiplies)):
        model = load_model(file, keep_bits=True, dtype=dtype)
        weight = model.get_parameter("model.layers.0.self_attn.q_proj.weight")
        assert isinstance(weight, PackedTensor) is is_packed
        if is_packed:
            expected = load_model(file, keep_bits=False).get_parameter(
                "model.layers.0.self_attn.q_proj.weight"
            )
            assert torch.equal(weight.matrix.unpack(), expected)  # type: ignore[attr-defined]


def test_rows_are_moved_by_a_processor_that_expects_whole_rows() -> None:
    """BLOOM's: queries, keys and values of a head are adjacent in the model."""
    process = processors().BloomTensorProcessor(config={"n_head": 2, "hidden_size": 32}).process
    order = row_order(process, GgufTensor("blk.0.attn_qkv.weight", (32, 96), Q8_0, 0))
    assert order is not None
    assert torch.equal(order, torch.arange(96).view(3, 2, 16).transpose(0, 1).flatten())


def test_a_matrix_that_a_processor_turns_is_dequantized() -> None:
    process = processors().GPT2TensorProcessor().process
    assert row_order(process, GgufTensor("blk.0.ffn_up.weight", (32, 32), Q8_0, 0)) is None
