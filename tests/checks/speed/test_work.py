"""What a token costs: matrices, their formats and bytes, of safetensors, GGUF files and experts."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

from checks.memory import try_build_on_meta
from checks.memory.plan import Plan, make_plan
from checks.memory.plan_request import PlanRequest
from checks.speed.shape import decoder_shape, layers_bytes, narrow, reduce_shape, skipped_products
from checks.speed.work import TokenMatrix, token_matrices, token_work
from hub.client import Hub
from hub.resolve import from_folder
from hub.weight_files import AllowedFiles
from hub.weight_headers.gguf import with_gguf_config
from inference.model.quantization.find_weights import WeightRole
from inference.native.sample_model import DecoderShape, same_dtype
from inference.native.structs import NativeDtype
from tests.tiny_models import gguf_files, tiny

HIDDEN, INNER, KEYS, VOCAB, LAYERS = 32, 64, 16, 320, 2  # as in tiny.LLAMA
LAYER_VALUES = HIDDEN * (2 * HIDDEN + 2 * KEYS + 3 * INNER)


def matrices_of(plan: Plan) -> list[TokenMatrix]:
    return token_matrices(plan, try_build_on_meta(plan.repository.config))


def shape_of(plan: Plan) -> DecoderShape:
    config = try_build_on_meta(plan.repository.config).config
    return decoder_shape(config, matrices_of(plan), torch.bfloat16)


def formats(matrices: Iterable[TokenMatrix], role: WeightRole) -> set[NativeDtype]:
    return {each.dtype for each in matrices if each.role is role}


def test_products_are_those_of_the_layers(planned: Callable[..., Plan]) -> None:
    work = token_work(matrices_of(planned(dtype="bfloat16")), "cpu")
    assert work.products == LAYERS * LAYER_VALUES
    assert work.layer_bytes == 2 * LAYERS * LAYER_VALUES
    assert work.head_bytes == 2 * VOCAB * HIDDEN


def test_an_embedding_that_is_only_looked_up_costs_nothing(planned: Callable[..., Plan]) -> None:
    assert WeightRole.EMBEDDING not in {each.role for each in matrices_of(planned())}


@pytest.mark.parametrize(
    ("quantize", "head", "layers"),
    [
        ("int8", NativeDtype.INT8, {NativeDtype.INT8}),
        ("int4", NativeDtype.INT8, {NativeDtype.INT4}),
        (
            "q4_k_m",
            NativeDtype.Q8_0,
            {NativeDtype.Q5_0, NativeDtype.Q8_0},
        ),  # inputs of less than a super-block
    ],
)
def test_quantized_matrices_have_the_formats_of_the_scheme(
    planned: Callable[..., Plan], tmp_path: Path, quantize: str, head: NativeDtype, layers: set[NativeDtype]
) -> None:
    folder = tiny.llama(tmp_path / "wide", hidden_size=64, intermediate_size=128, num_key_value_heads=4)
    source = from_folder("wide", folder)
    matrices = matrices_of(planned(source, quantize=quantize))
    assert formats(matrices, WeightRole.HEAD) == {head}
    assert formats(matrices, WeightRole.LAYER) == layers


def test_a_token_is_computed_by_some_of_the_experts(planned: Callable[..., Plan], tmp_path: Path) -> None:
    config = Qwen2MoeConfig(**tiny.LLAMA, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=64)
    source = from_folder("moe", tiny.save_model(tmp_path / "moe", Qwen2MoeForCausalLM, config))
    experts = [each for each in matrices_of(planned(source)) if each.role is WeightRole.EXPERTS]
    assert experts and {each.count for each in experts} == {3}


@pytest.fixture
def gguf_plan(tmp_path: Path) -> Plan:
    folder = tmp_path / "file"
    folder.mkdir()
    gguf_files.write(tiny.llama(tmp_path / "model"), folder / "tiny.gguf")
    repository = from_folder("tiny", folder, AllowedFiles(gguf_file="tiny.gguf"))
    request = PlanRequest(
        device="cpu",
        dtype="bfloat16",
        bfloat16_devices=frozenset({"cpu"}),
        context=0,
        max_sequences=4,
        kv_memory_bytes=0,
        trust_remote_code=False,
    )
    return make_plan(with_gguf_config(repository, Hub("", tmp_path / "cache")), request)


def test_matrices_of_a_gguf_file_keep_their_format(gguf_plan: Plan) -> None:
    matrices = matrices_of(gguf_plan)
    assert formats(matrices, WeightRole.LAYER) == {NativeDtype.Q8_0}
    assert token_work(matrices, "cpu").products == LAYERS * LAYER_VALUES


def test_the_shape_of_a_gguf_file_has_its_formats(gguf_plan: Plan) -> None:
    shape = shape_of(gguf_plan)
    assert [set(layer.values()) for layer in shape.layers] == [{NativeDtype.Q8_0}] * LAYERS
    assert shape.head is NativeDtype.Q8_0


def test_the_shape_costs_what_the_matrices_cost(planned: Callable[..., Plan]) -> None:
    plan = planned(dtype="bfloat16")
    shape = shape_of(plan)
    work = token_work(matrices_of(plan), "cpu")
    assert layers_bytes(shape, range(LAYERS)) == work.layer_bytes
    assert shape.layer_values * LAYERS == work.products
    assert skipped_products(shape) == LAYER_VALUES - HIDDEN * (HIDDEN + 2 * KEYS)


def large_shape(**changes: Any) -> DecoderShape:
    options: dict[str, Any] = {"hidden": 1024, "num_heads": 16, "num_kv_heads": 4, "head_dim": 64}
    options |= {"inner": 4096, "vocab": 100_000, "layers": (same_dtype(NativeDtype.BF16),) * 12}
    return DecoderShape(**options | {"head": NativeDtype.BF16} | changes)


def test_a_reduced_shape_has_as_many_layers_as_fit() -> None:
    shape = large_shape()
    layer_bytes = 2 * shape.layer_values
    reduced = reduce_shape(shape, 3 * layer_bytes, 1 << 22)
    assert (len(reduced.layers), reduced.inner, reduced.vocab) == (3, shape.inner, 2048)


def test_the_layers_of_a_reduced_shape_are_evenly_chosen() -> None:
    formats_of_layers = [NativeDtype.Q4_K] * 6 + [NativeDtype.Q6_K] * 6
    shape = large_shape(layers=[same_dtype(dtype) for dtype in formats_of_layers])
    reduced = reduce_shape(shape, layers_bytes(shape, range(12)) // 6, 1 << 22)
    assert [layer["down"] for layer in reduced.layers] == [NativeDtype.Q4_K, NativeDtype.Q6_K]


def test_a_small_shape_stays_whole() -> None:
    shape = large_shape(vocab=512)
    reduced = reduce_shape(shape, 1 << 30, 1 << 30)
    assert (len(reduced.layers), reduced.inner, reduced.vocab) == (12, shape.inner, 512)


def test_a_layer_that_is_too_large_becomes_narrower() -> None:
    shape = large_shape()
    reduced = reduce_shape(shape, shape.layer_values, 1 << 22)
    assert (len(reduced.layers), reduced.num_heads, reduced.num_kv_heads, reduced.inner) == (1, 8, 2, 2048)
    assert narrow(shape, 0.001).inner == 256
