"""The decoder that is timed has the matrices of the runner that will serve."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.speed import plan_speed
from checks.speed.estimate import Rates
from checks.speed.shape import decoder_shape
from checks.speed.work import TokenMatrix
from hub.resolve import from_folder
from inference.model.load_recipe import make_recipe
from inference.model.quantization.find_weights import WeightRole
from inference.native.sample_model import DecoderShape, SampleModel
from inference.native.structs import Model, NativeDtype
from settings.groups import ModelSettings
from tests.model.weights.weight_caches import ENGINE
from tests.tiny_models import tiny
from tests.tiny_models.families import needs_fused

PLACES = ("query", "key", "value", "output", "gate", "up", "down")


def describe(model: Model) -> dict[str, Any]:
    """What the time of a native model's step follows from, beside the tokens."""
    layers = [
        {place: describe_matrix(getattr(model.layer[number], place)) for place in PLACES}
        for number in range(model.layers)
    ]
    sizes = ("hidden", "num_heads", "num_kv_heads", "head_dim", "rotary", "dtype", "kv_dtype", "page")
    return {
        **{name: getattr(model, name) for name in sizes},
        "layers": layers,
        "lm_head": describe_matrix(model.lm_head),
    }


def describe_matrix(matrix: Any) -> tuple[NativeDtype, int, int]:
    return NativeDtype(matrix.dtype), matrix.outputs, matrix.inputs


@needs_fused
@pytest.mark.parametrize(
    ("quantize", "kv_dtype"), [("none", "auto"), ("int8", "auto"), ("q4_k_m", "auto"), ("none", "int8")]
)
def test_the_timed_model_is_the_served_one(
    planned: Callable[..., Plan],
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quantize: str,
    kv_dtype: str,
) -> None:
    shapes: list[DecoderShape] = []
    monkeypatch.setattr(plan_speed, "measure_cpu", lambda shape, *_: shapes.append(shape) or Rates(1, 1, 1))
    wide = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    folder = tiny.llama(tmp_path / "wide", **wide)
    plan = planned(from_folder("wide", folder), quantize=quantize, kv_dtype=kv_dtype)
    plan_speed.estimate_speed(plan, machine)
    sample = SampleModel(shapes[0], 16, threads=1)
    assert plan.model_size is not None
    settings = ModelSettings(
        device="cpu", dtype=plan.model_size.dtype, quantize=quantize, weight_cache_dir="off"
    )
    engine = dataclasses.replace(ENGINE, runner="fused", kv_dtype=kv_dtype)
    _, selected = make_recipe(folder, settings, engine).load_model()
    assert describe(sample.model) == describe(selected.runner.runner.native_model)


def matrix(name: str, dtype: NativeDtype, role: WeightRole = WeightRole.LAYER) -> TokenMatrix:
    return TokenMatrix(name, role, dtype, 64, 64)


def test_layers_without_known_names_have_the_format_of_most_weights() -> None:
    matrices = [
        matrix("transformer.h.0.attn.c_attn.weight", NativeDtype.INT4),
        matrix("transformer.h.1.mlp.c_proj.weight", NativeDtype.INT4),
        matrix("transformer.h.1.mlp.router.weight", NativeDtype.BF16, WeightRole.SMALL),
        matrix("lm_head.weight", NativeDtype.INT8, WeightRole.HEAD),
    ]
    shape = decoder_shape(LlamaConfig(**tiny.LLAMA), matrices, torch.bfloat16)
    assert [set(layer.values()) for layer in shape.layers] == [{NativeDtype.INT4}] * 2
    assert shape.head is NativeDtype.INT8


def test_each_layer_has_its_own_formats() -> None:
    matrices = [
        matrix("blk.0.attn_v.weight", NativeDtype.Q6_K),
        matrix("blk.0.ffn_down.weight", NativeDtype.Q4_K),
        matrix("blk.1.ffn_down.weight", NativeDtype.Q6_K),
        matrix("blk.1.attn_qkv.weight", NativeDtype.Q4_K),
        matrix("blk.1.ffn_up.weight", NativeDtype.Q4_K),
    ]
    first, second = decoder_shape(LlamaConfig(**tiny.LLAMA), matrices, torch.bfloat16).layers
    assert (first["value"], first["down"]) == (NativeDtype.Q6_K, NativeDtype.Q4_K)
    assert (second["value"], second["down"]) == (NativeDtype.Q4_K, NativeDtype.Q6_K)
