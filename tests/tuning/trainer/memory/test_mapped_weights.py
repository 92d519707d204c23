"""A trainer maps the packed weights that the server has kept: the same memory, values and plan."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inference.model.load_recipe import find_weight_file, make_recipe
from inference.model.quantization.dequantized import Dequantized
from inference.model.quantization.replace import packed_matrices
from inference.model.weights.mapped_model import mapped_file
from settings.groups import ModelSettings
from tests.model.weights import weight_caches
from tests.model.weights.weight_caches import ENGINE, gguf_llama, gpt2_with_conv1d, tied_llama
from tests.tiny_models import tiny
from tests.tiny_models.families import needs_fused
from tests.tuning.trainer.conftest import job_spec, make_data
from tuning.served_weights import with_served_weights
from tuning.trainer.memory.memory_plan import plan_memory
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.model.open_base import open_base
from tuning.trainer.server import TrainerServer
from tuning.trainer.trainer import Trainer
from tuning.types import TrainingBase

pytestmark = needs_fused


@pytest.fixture(autouse=True)
def keep_small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    weight_caches.keep_small_models(monkeypatch)


def serve(source: Path, folder: Path, dtype: str, quantize: str) -> tuple[Any, TrainingBase]:
    """The served model, and what its trainer loads. The server's first start keeps the weights."""
    settings = ModelSettings(device="cpu", dtype=dtype, quantize=quantize, weight_cache_dir=str(folder))
    weight_file = find_weight_file(source, settings)
    assert weight_file
    served, _ = make_recipe(source, settings, replace(ENGINE, runner="auto")).load_model()
    base = TrainingBase(
        names=("served",),
        model_folder=str(source),
        context=64,
        dtype=dtype,
        quantize=quantize,
        device="cpu",
        weight_file=str(weight_file),
    )
    return served.model, with_served_weights(base)


@pytest.fixture
def wait_for_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    weight_caches.wait_for_writers(monkeypatch)


@pytest.mark.usefixtures("wait_for_writers")
@pytest.mark.parametrize(
    ("make_source", "dtype", "quantize"),
    [
        (tied_llama, "float32", "none"),
        (tied_llama, "bfloat16", "none"),
        (tied_llama, "bfloat16", "int8"),
        (tied_llama, "bfloat16", "int4"),
        (gguf_llama, "bfloat16", "none"),
        (gpt2_with_conv1d, "bfloat16", "int8"),
    ],
)
def test_a_trainer_has_the_values_and_the_memory_of_the_server(
    make_source: Callable[[Path], Path], dtype: str, quantize: str, tmp_path: Path
) -> None:
    source = make_source(tmp_path)
    serve(source, tmp_path / "weights", dtype, quantize)
    served, spec = serve(source, tmp_path / "weights", dtype, quantize)
    opened = open_base(spec, quantize)
    file, own_file = mapped_file(served), mapped_file(opened.causal)
    assert spec.shares_weights and file and own_file and file.about == own_file.about
    values = [matrix.unpack() for matrix in packed_matrices(served)]
    assert all(map(torch.equal, values, [matrix.unpack() for matrix in packed_matrices(opened.causal)]))
    use_dora = make_source is gguf_llama
    logprobs, gradients = one_pass(opened, use_dora)
    with Dequantized():  # torch computes with the same values
        expected, expected_gradients = one_pass(open_base(spec, quantize), use_dora)
    tolerance = 1e-5 if dtype == "float32" else 0.05
    assert (logprobs - expected).abs().max() <= tolerance
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        assert (gradient - other).norm() <= 10 * tolerance * other.norm() + 1e-6


def one_pass(base: BaseModel, use_dora: bool) -> tuple[Tensor, list[Tensor]]:
    """The log probabilities of a pass, and the gradients of a new adapter."""
    trainer = Trainer(base)
    trainer.create_run("run", LoraOptions(rank=4, train_output=True, use_dora=use_dora))
    for weight in trainer.parameters("run"):
        torch.nn.init.normal_(weight, std=0.02)
    result = trainer.forward_backward(
        "run", make_data([20, 9], vocab_size=300, weights=lambda _: 1.0), "cross_entropy"
    )
    return torch.cat(list(result.logprobs)), [weight.grad for weight in trainer.parameters("run")]  # type: ignore[misc]


@pytest.mark.usefixtures("wait_for_writers")
def test_the_plan_counts_shared_weights_once(tmp_path: Path) -> None:
    source = tied_llama(tmp_path)
    _, first = serve(source, tmp_path / "weights", "bfloat16", "none")
    assert not first.shares_weights, "its matrices are smaller than pages"
    _, second = serve(source, tmp_path / "weights", "bfloat16", "none")
    weights, num_norms = {}, 2 * 2 + 1
    for name, base in {"plain": replace(first, weight_file=""), "own": first, "shared": second}.items():
        config = TrainerServer(base).config
        spec = replace(job_spec(), dtype="bfloat16", device="cpu", model_folder=str(source))
        spec = replace(spec, weight_file=base.weight_file, shares_weights=base.shares_weights)
        weights[name] = plan_memory(config, spec, 64).weights
    copied = 2 * num_norms * tiny.LLAMA["hidden_size"]
    assert weights["shared"] == copied
    assert weights["plain"] <= weights["own"] < 1.1 * weights["plain"], "whole panels"


@pytest.mark.usefixtures("wait_for_writers")
def test_shared_weights_are_no_memory_of_the_trainer(tmp_path: Path) -> None:
    source = tied_llama(tmp_path)
    serve(source, tmp_path / "weights", "bfloat16", "none")
    _, base = serve(source, tmp_path / "weights", "bfloat16", "none")
    server, other = TrainerServer(base), TrainerServer(replace(base, shares_weights=False))
    assert server.trainer and other.trainer
    size = Path(base.weight_file).stat().st_size
    assert 0.9 * size < other.resident_bytes() - server.resident_bytes() < 1.1 * size


@pytest.mark.usefixtures("wait_for_writers")
@pytest.mark.parametrize("content", [None, b"no weights"], ids=["absent", "damaged"])
def test_without_a_usable_file_the_weights_are_loaded(content: bytes | None, tmp_path: Path) -> None:
    _, base = serve(tied_llama(tmp_path), tmp_path / "weights", "bfloat16", "int8")
    path = Path(base.weight_file)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    opened = open_base(base, "int8")
    assert mapped_file(opened.causal) is None and packed_matrices(opened.causal) and not path.exists()


@pytest.mark.usefixtures("wait_for_writers")
def test_the_first_start_shares_its_weights_once_they_are_written(tmp_path: Path) -> None:
    sizes = {"hidden_size": 768, "intermediate_size": 1024, "vocab_size": 2048, "num_hidden_layers": 1}
    source = tiny.llama(tmp_path / "llama", **sizes, num_attention_heads=12, num_key_value_heads=12)
    served, base = serve(source, tmp_path / "weights", "float32", "none")
    assert mapped_file(served) is None, "they were packed by this start"
    assert base.shares_weights
