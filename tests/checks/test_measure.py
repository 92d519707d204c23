"""How large a model is: asked of the model on the meta device, or estimated."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from checks import memory
from checks.machine import Machine
from checks.measure import Measure, measure
from checks.plan import Plan
from checks.source.find import in_folder
from tests import tiny
from tests.families import T5
from tests.families import tiny as family

LLAMA = tiny.LLAMA | {"model_type": "llama"}


def tensors_in(folder: Path) -> dict[str, torch.Tensor]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {key: file.get_tensor(key).to("meta") for key in file.keys()}  # noqa: SIM118


def measured(raw: dict[str, Any], stored: int = 0) -> Measure:
    return measure(raw, stored, lambda parameters: "bfloat16")


def test_the_weights_are_those_in_the_file(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path)
    with safe_open(folder / "model.safetensors", "pt") as file:
        count = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118
    rotary = 2 * 4 * 4  # frequencies of the positions, and a copy of them, in float32
    whole = Measure(count, "bfloat16", 2 * count + rotary, token=2 * 2 * 2 * 8 * 2, row=0, buffers=rotary)
    rest = {"layers": (), "saves": {}, "work": 0, "largest": 0, "vocab": 0, "copied": 0}
    assert replace(measured(LLAMA), **rest, native=False) == whole


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_as_in_the_file_is_not_copied(dtype: str, tmp_path: Path) -> None:
    tensors = tensors_in(tiny.llama(tmp_path))
    found = measure(LLAMA, 0, lambda parameters: dtype, tensors=tensors)
    assert found.copied == (0 if dtype == "bfloat16" else found.weights - found.buffers)
    assert found.converts is (dtype == "float32")


def test_experts_that_are_put_together_are_copied(tmp_path: Path) -> None:
    model = family("mixtral")
    model.save_pretrained(tmp_path)
    found = measure(model.config.to_dict(), 0, lambda parameters: "float32", tensors=tensors_in(tmp_path))
    experts = sum(weight.nbytes for weight in model.parameters() if weight.dim() == 3)
    assert found.copied == experts > 0
    assert not found.missing and not found.converts


def test_layers_are_measured_each() -> None:
    tail = 2 * (320 * 32 * 2 + 32)  # embeddings, head, last norm
    llama = measured(LLAMA)
    assert llama.layers == ((llama.weights - llama.buffers - tail) // 2,) * 2


def test_an_encoders_layers_are_told_apart() -> None:
    t5 = measured(T5 | {"model_type": "t5", "num_decoder_layers": 3})
    assert (len(t5.layers), t5.encoder) == (5, 2)


def test_tied_weights_count_once() -> None:
    tied = measured(LLAMA | {"tie_word_embeddings": True})
    assert measured(LLAMA).parameters - tied.parameters == 320 * 32


def test_a_sliding_window_costs_what_the_seats_keep_of_it() -> None:
    """All of it: a row may be asked to go back to any of its tokens."""
    sliding = measured(LLAMA | {"model_type": "mistral", "sliding_window": 16})
    assert (sliding.token, sliding.row) == (measured(LLAMA).token, 0)


def test_a_recurrent_model_keeps_a_state_only() -> None:
    state = measured({"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320})
    assert state.token == 0 and state.row > 0


def test_a_quantised_model_is_as_large_as_its_files() -> None:
    assert measured(LLAMA | {"quantization_config": {}}, stored=12345).weights == 12345


def test_a_model_with_its_own_code_is_estimated_from_files_and_config() -> None:
    raw = LLAMA | {"model_type": "own", "dtype": "float32"}
    told = Measure(1000, "bfloat16", 2000, token=2 * 2 * 2 * 8 * 2, row=0, asked=False, copied=2000)
    found = measured(raw, stored=4000)
    assert "own" in found.unmade and replace(found, unmade="") == told


def test_a_formula_is_said_to_be_one(tmp_path: Path, planned: Callable[..., Plan], machine: Machine) -> None:
    code = {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "x.M"}}
    tiny.edit(tiny.llama(tmp_path) / "config.json", **code)
    plan = planned(in_folder("own", tmp_path, code=True), code=True)
    finding = memory.check_context(plan, machine)
    assert finding and "by a formula: the model cannot be asked" in finding.have


def test_layers_that_keep_a_state_are_not_counted_by_the_token() -> None:
    kinds = ["linear_attention", "linear_attention", "full_attention"]
    raw = LLAMA | {"model_type": "own", "num_hidden_layers": 3, "layer_types": kinds}
    states = {"linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    told = measured(raw | states, stored=4000)
    assert (told.token, told.row) == (2 * 2 * 8 * 2, 2 * 4 * 8 * 8 * 4)
    assert not told.asked


@pytest.mark.parametrize("name", ("num_decoder_layers", "decoder_layers"))
def test_by_the_formula_a_decoder_keeps_what_its_own_layers_do(name: str) -> None:
    raw = T5 | {"model_type": "own", "is_encoder_decoder": True, name: 5}
    assert (
        measured(raw, stored=4000).token == 2 * 5 * 2 * 4 * 8 * 2
    )  # its own and the encoder's, keys, values


def test_what_stays_in_float32_is_counted_so(tmp_path: Path) -> None:
    """T5's last projection of a layer, in float16."""
    raw = T5 | {"model_type": "t5", "vocab_size": 320}
    half, whole = (
        measure(raw, 0, lambda parameters, dtype=dtype: dtype) for dtype in ("float16", "bfloat16")
    )
    assert half.weights - whole.weights == 2 * (2 + 2) * 32 * 64
