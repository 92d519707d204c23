"""What quantised weights are worth: against others' plain rounding, and on the demo model's questions."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from inference.model.load import Loaded, load
from inference.model.trial import Trial
from inference.model.weights.found import Role, find
from inference.model.weights.hold import quantise
from inference.model.weights.kinds import INT4, INT8
from inference.native.matrix import Matrix
from inference.native.structs import Kind
from scripts.demo_model.exam import items, sit
from tests.serving import serving

DEMO = Path(__file__).parents[3] / "models" / "demo"
GROUP = 32


def demo() -> Loaded:
    return load(DEMO, dtype="float32", device="cpu", trust_remote_code=False)


def q4_0(weight: Tensor) -> Tensor:
    """As ggml rounds: what is largest in a group of 32 becomes -8, the scale is of 16 bits.

    github.com/ggml-org/ggml, src/ggml-quants.c, quantize_row_q4_0_ref
    """
    groups = weight.float().unflatten(1, (-1, GROUP))
    scale = groups.gather(-1, groups.abs().argmax(-1, keepdim=True)) / -8
    integers = (groups / scale + 8.5).floor().clamp(0, 15) - 8
    return (integers * scale.half().float()).flatten(1)


def error(kept: Tensor, weight: Tensor) -> float:
    return float((kept - weight).square().mean().sqrt() / weight.square().mean().sqrt())


def of_layers() -> list[Tensor]:
    torch.manual_seed(1)
    drawn = [torch.randn(48, 96), torch.randn(32, 64) * torch.rand(32, 1), torch.randn(64, 128) ** 3]
    return drawn + [found.weight.detach() for found in find(demo().model) if found.role is Role.LAYER][:7]


def test_int4_errs_less_than_plain_rounding_in_groups_of_32() -> None:
    for weight in of_layers():
        kept = Matrix.pack(weight, Kind.INT4, None).unpack()
        assert error(kept, weight) < error(q4_0(weight), weight)


def test_int8_errs_as_little_as_its_bits_allow() -> None:
    """Rounding to 127 steps of the largest value errs by the square root of 1/12 of a step."""
    for weight in of_layers():
        kept = Matrix.pack(weight, Kind.INT8, None).unpack()
        step = weight.abs().amax(1, keepdim=True) / 127
        assert ((kept - weight).abs() <= 0.5001 * step).all()
        assert ((kept - weight) / step).square().mean().sqrt() < 1.1 * (1 / 12) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [INT8, INT4])
def test_a_quantised_demo_model_knows_what_it_knew(kind: str) -> None:
    plain, quantised = demo(), demo()
    quantise(quantised.model, Trial(quantised.model), kind)
    exam = items(1, 1)
    before, after = (list(sit(each.model, each.tokenizer, exam)) for each in (plain, quantised))
    lost = [was.item for was, now in zip(before, after, strict=True) if was.right and not now.right]
    assert len(lost) <= len(exam) * (0.02 if kind == INT8 else 0.1), lost
    assert sum(mark.right for mark in before) > len(exam) * 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [INT8, INT4])
def test_a_quantised_model_is_served(kind: str) -> None:
    with serving("--quantise", kind, "--log-level", "warning") as server:
        for prompt, answer in (("The capital of France is", " Paris."), ("A cow says", " moo.")):
            body = {"prompt": prompt, "temperature": 0}
            assert server.post("/v1/completions", body).json()["choices"][0]["text"] == answer
