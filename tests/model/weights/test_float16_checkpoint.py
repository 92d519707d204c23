"""Matrices of float16 keep their bits where the processor has no products of bfloat16."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.model.gguf import kept_bits
from inference.model.load.loader import load
from inference.model.quantization.packed_tensor import PackedWeight
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.model.weights.float16_checkpoint import has_float16_weights
from inference.model.weights.kept_formats import KEPT_FORMATS
from settings.groups import ModelSettings
from tests.tiny_models import tiny

IDS = torch.tensor([[5, 6, 7, 8]])


@pytest.fixture(scope="module", params=[False, True], ids=["own head", "tied head"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama in float16 that bfloat16 cannot represent."""
    folder = tiny.llama(tmp_path_factory.mktemp("float16"), tie_word_embeddings=request.param)
    path = folder / "model.safetensors"
    weights = {name: torch.randn(weight.shape) / 9 for name, weight in load_file(path).items()}
    save_file({name: weight.half() for name, weight in weights.items()}, path, metadata={"format": "pt"})
    return folder


def load_model(source: Path, dtype: str = "bfloat16") -> torch.nn.Module:
    return load(source, ModelSettings(dtype=dtype, device="cpu"), formats=KEPT_FORMATS).model


@torch.inference_mode()
def error_of(model: torch.nn.Module, source: Path) -> float:
    """The rms error of the logits, in standard deviations of those in float64."""
    exact = load_model(source, "float32").double()(IDS).logits
    return float((model(IDS).logits.double() - exact).square().mean().sqrt() / exact.std())


def test_matrices_keep_their_values(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_bits, "multiplies_bfloat16", lambda: False)
    model, exact = load_model(source), load_model(source, "float32")
    for (name, weight), right in zip(model.named_parameters(), exact.parameters(), strict=True):
        assert isinstance(weight, PackedWeight) is (right.dim() == 2), name
        if isinstance(weight, PackedWeight):
            assert torch.equal(weight.matrix.unpack(torch.float32), right), name


def test_logits_are_no_less_exact_than_in_bfloat16(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_bits, "multiplies_bfloat16", lambda: True)
    rounded = load_model(source)
    assert not any(isinstance(weight, PackedWeight) for weight in rounded.parameters())
    monkeypatch.setattr(kept_bits, "multiplies_bfloat16", lambda: False)
    assert error_of(load_model(source), source) < error_of(rounded, source)


def test_the_fused_runner_serves_them(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_bits, "multiplies_bfloat16", lambda: False)
    model = load_model(source)
    selected = select_runner(
        model, RunnerLimits(max_sequences=2, context=64, kv_memory_bytes=1 << 24), RunnerRules(timed=False)
    )
    assert selected.runner_kind == "fused"
    assert isinstance(model.get_input_embeddings().weight, PackedWeight)


def test_a_damaged_file_is_left_to_the_loader(tmp_path: Path) -> None:
    assert not has_float16_weights(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    assert not has_float16_weights(tmp_path)
