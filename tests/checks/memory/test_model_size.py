"""The size of a model: measured on the meta device, or estimated."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from checks.machine import Machine
from checks.memory import ModelSize, measure_model
from checks.memory.kv_cost import RunnerChoice
from checks.memory.plan import Plan
from checks.resources import enough_memory
from hub.resolve import from_folder
from hub.weight_files import AllowedFiles
from inference.model.kv_cost import KVCost
from tests.tiny_models import tiny
from tests.tiny_models.families import T5
from tests.tiny_models.families import tiny as family

LLAMA = tiny.LLAMA | {"model_type": "llama"}


def tensors_in(folder: Path) -> dict[str, torch.Tensor]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {key: file.get_tensor(key).to("meta") for key in file.keys()}  # noqa: SIM118


def measure(raw: dict[str, Any], stored: int = 0) -> ModelSize:
    return measure_model(raw, stored, lambda parameters: "bfloat16")


def test_the_weights_are_those_of_the_file(tmp_path: Path) -> None:
    folder = tiny.llama(tmp_path)
    with safe_open(folder / "model.safetensors", "pt") as file:
        count = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118
    rotary = 2 * 4 * 4  # rope frequencies and their copy, in float32
    expected = ModelSize(
        count,
        "bfloat16",
        2 * count + rotary,
        KVCost(2 * 2 * 2 * 8 * 2),
        buffers=rotary,
    )
    rest = {"layer_weights": (), "quantization_savings": {}, "activation_bytes_per_token": 0}
    rest |= {"largest_weight": 0, "vocab_size": 0, "load_copy_bytes": 0}
    assert replace(measure(LLAMA), **rest, is_fused=False) == expected


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_stored_in_the_target_dtype_are_not_copied(dtype: str, tmp_path: Path) -> None:
    tensors = tensors_in(tiny.llama(tmp_path))
    size = measure_model(LLAMA, 0, lambda parameters: dtype, tensors=tensors)
    assert size.load_copy_bytes == (0 if dtype == "bfloat16" else size.weights - size.buffers)
    assert size.is_converted is (dtype == "float32")


def test_experts_that_are_stacked_are_copied(tmp_path: Path) -> None:
    model = family("mixtral")
    model.save_pretrained(tmp_path)
    size = measure_model(
        model.config.to_dict(), 0, lambda parameters: "float32", tensors=tensors_in(tmp_path)
    )
    experts = sum(weight.nbytes for weight in model.parameters() if weight.dim() == 3)
    assert size.load_copy_bytes == experts > 0
    assert not size.missing_weights and not size.is_converted


def test_each_layer_is_measured() -> None:
    tail = 2 * (320 * 32 * 2 + 32)  # embeddings, head, last norm
    llama = measure(LLAMA)
    assert llama.layer_weights == ((llama.weights - llama.buffers - tail) // 2,) * 2


def test_an_encoders_layers_are_counted_apart() -> None:
    t5 = measure(T5 | {"model_type": "t5", "num_decoder_layers": 3})
    assert (len(t5.layer_weights), t5.num_encoder_layers) == (5, 2)


def test_tied_weights_count_once() -> None:
    tied = measure(LLAMA | {"tie_word_embeddings": True})
    assert measure(LLAMA).num_parameters - tied.num_parameters == 320 * 32


MISTRAL = LLAMA | {"model_type": "mistral", "sliding_window": 16}


def test_a_token_takes_its_bytes_while_it_is_within_the_window() -> None:
    assert measure(MISTRAL).kv_cost == KVCost(windowed=((16, measure(LLAMA).kv_cost.per_token),))


@pytest.mark.parametrize(
    ("runner", "deterministic", "device", "is_windowed"),
    [
        ("auto", False, "cuda", True),
        ("auto", True, "cpu", True),  # the fused runner
        ("auto", True, "cuda", False),
        ("contiguous", False, "cpu", False),
    ],
)
def test_the_runner_decides_whether_tokens_behind_the_window_take_memory(
    runner: str, deterministic: bool, device: str, is_windowed: bool
) -> None:
    choice = RunnerChoice(runner, deterministic, device)
    size = measure_model(MISTRAL, 0, lambda parameters: "bfloat16", runner_choice=choice)
    assert bool(size.kv_cost.windowed) is is_windowed
    assert size.kv_cost.per_recent_token == measure(LLAMA).kv_cost.per_token


def test_a_recurrent_model_has_only_a_state() -> None:
    state = measure({"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320})
    assert state.kv_cost.per_token == 0 and state.kv_cost.per_row > 0


def test_a_quantized_model_is_as_large_as_its_files() -> None:
    assert measure(LLAMA | {"quantization_config": {}}, stored=12345).weights == 12345


def test_a_model_with_its_own_code_is_estimated_from_files_and_config() -> None:
    raw = LLAMA | {"model_type": "own", "dtype": "float32"}
    expected = ModelSize(
        1000,
        "bfloat16",
        2000,
        KVCost(2 * 2 * 2 * 8 * 2),
        is_kv_measured=False,
        load_copy_bytes=2000,
    )
    size = measure(raw, stored=4000)
    assert "own" in size.construct_error and replace(size, construct_error="") == expected


def test_a_formula_is_reported_as_such(
    tmp_path: Path, planned: Callable[..., Plan], machine: Machine
) -> None:
    code = {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "x.M"}}
    tiny.edit(tiny.llama(tmp_path) / "config.json", **code)
    plan = planned(from_folder("own", tmp_path, AllowedFiles(trust_remote_code=True)), trust_remote_code=True)
    finding = enough_memory.check_context(plan, machine)
    assert finding and "estimated by a formula" in finding.have


def test_layers_with_a_recurrent_state_do_not_count_per_token() -> None:
    kinds = ["linear_attention", "linear_attention", "full_attention"]
    raw = LLAMA | {"model_type": "own", "num_hidden_layers": 3, "layer_types": kinds}
    states = {"linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    size = measure(raw | states, stored=4000)
    assert size.kv_cost == KVCost(2 * 2 * 8 * 2, 2 * 4 * 8 * 8 * 4)
    assert not size.is_kv_measured


@pytest.mark.parametrize("name", ("num_decoder_layers", "decoder_layers"))
def test_the_formula_counts_the_decoders_own_layers(name: str) -> None:
    raw = T5 | {"model_type": "own", "is_encoder_decoder": True, name: 5}
    attentions, layers, keys_and_values, num_heads, width, num_bytes = 2, 5, 2, 4, 8, 2
    expected = attentions * layers * keys_and_values * num_heads * width * num_bytes
    assert measure(raw, stored=4000).kv_cost.per_token == expected


def test_weights_kept_in_float32_are_counted_as_float32(tmp_path: Path) -> None:
    """T5 in float16 keeps the last projection of each layer in float32."""
    raw = T5 | {"model_type": "t5", "vocab_size": 320}
    half, full = (
        measure_model(raw, 0, lambda parameters, dtype=dtype: dtype) for dtype in ("float16", "bfloat16")
    )
    assert half.weights - full.weights == 2 * (2 + 2) * 32 * 64
