"""The quality of quantized weights: against ggml's plain rounding, and on the demo model's questions."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.model.load.loader import LoadedModel, load
from inference.model.quantization.find_weights import WeightRole, find_weights
from inference.model.quantization.quantize import quantize_weights
from inference.model.quantization.schemes import INT4, INT8, Quantization
from inference.model.reference import Reference
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import NativeDtype
from scripts.demo_model.exam import items, sit
from settings.groups import ModelSettings
from tests.servers.serving import serving

DEMO = Path(__file__).parents[3] / "models" / "demo"
GROUP = 32


def demo() -> LoadedModel:
    return load(DEMO, ModelSettings(dtype="float32", device="cpu"))


def q4_0(weight: Tensor) -> Tensor:
    """ggml's rounding: the largest value in a group of 32 becomes -8; the scale has 16 bits.

    github.com/ggml-org/ggml, src/ggml-quants.c, quantize_row_q4_0_ref
    """
    groups = weight.float().unflatten(1, (-1, GROUP))
    scale = groups.gather(-1, groups.abs().argmax(-1, keepdim=True)) / -8
    integers = (groups / scale + 8.5).floor().clamp(0, 15) - 8
    return (integers * scale.half().float()).flatten(1)


def error(approximation: Tensor, weight: Tensor) -> float:
    return float((approximation - weight).square().mean().sqrt() / weight.square().mean().sqrt())


def sample_weights() -> list[Tensor]:
    torch.manual_seed(1)
    random_weights = [torch.randn(48, 96), torch.randn(32, 64) * torch.rand(32, 1), torch.randn(64, 128) ** 3]
    return (
        random_weights
        + [item.weight.detach() for item in find_weights(demo().model) if item.role is WeightRole.LAYER][:7]
    )


def test_int4_errs_less_than_plain_rounding_in_groups_of_32() -> None:
    for weight in sample_weights():
        approximation = PackedMatrix.pack(weight, NativeDtype.INT4, None).unpack()
        assert error(approximation, weight) < error(q4_0(weight), weight)


def test_int8_rounds_as_precisely_as_its_bits_allow() -> None:
    """Rounding to 127 steps of the largest value has an RMS error of sqrt(1/12) of a step."""
    for weight in sample_weights():
        approximation = PackedMatrix.pack(weight, NativeDtype.INT8, None).unpack()
        step = weight.abs().amax(1, keepdim=True) / 127
        assert ((approximation - weight).abs() <= 0.5001 * step).all()
        assert ((approximation - weight) / step).square().mean().sqrt() < 1.1 * (1 / 12) ** 0.5


@pytest.mark.slow
def test_a_quantized_demo_model_still_answers_its_questions() -> None:
    exam = [item for item in items(1, 1) if item.subject != "long counts"]  # 300 tokens a question
    plain = demo()
    before = list(sit(plain.model, plain.tokenizer, exam))
    assert sum(mark.is_right for mark in before) > len(exam) * 0.9
    for kind, lost_share in ((INT8, 0.02), (INT4, 0.1)):
        quantized = demo()
        quantize_weights(quantized.model, Reference(quantized.model), Quantization(kind))
        after = list(sit(quantized.model, quantized.tokenizer, exam))
        lost = [was.item for was, now in zip(before, after, strict=True) if was.is_right and not now.is_right]
        assert len(lost) <= len(exam) * lost_share, (kind, lost)


@pytest.mark.slow
def test_a_quantized_model_is_served() -> None:
    """In 4 bits; tests/live/test_seed_commands.py serves one in 8."""
    with serving("--quantize", INT4, "--log-level", "warning") as server:
        for prompt, completion in (("The capital of France is", " Paris."), ("A cow says", " moo.")):
            body = {"prompt": prompt, "temperature": 0}
            assert server.post("/v1/completions", body).json()["choices"][0]["text"] == completion
