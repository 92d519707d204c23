"""Whether packed matmuls pay: timed on a sample of the model's weights, at few rows and at many."""

import time

import pytest
import torch
from torch import Tensor

from inference.model.quantization import is_faster as timing
from inference.model.quantization.find_weights import find_weights
from inference.model.quantization.is_faster import packing_is_faster, sample_of
from inference.native.structs import NativeDtype
from tests.model.quantization.torch_matrix import TorchMatrix
from tests.tiny_models.families import tiny

WIDE = {"hidden_size": 64, "intermediate_size": 640}  # layers (640, 64) hold most of its values


class SlowMatrix(TorchMatrix):
    """Takes a little longer than torch."""

    def linear(self, x: Tensor) -> Tensor:
        time.sleep(0.002)
        return super().linear(x)


def test_a_slower_matmul_is_not_used() -> None:
    assert not packing_is_faster(tiny("phi", **WIDE), SlowMatrix)


@pytest.mark.parametrize(
    ("one", "some", "many", "paid"),
    [
        (2.0, 0.8, 1.0, True),
        (0.8, 2.0, 1.0, True),
        (1.0, 1.0, 2.0, False),
        (2.0, 2.0, 0.8, False),
    ],
)
def test_packing_needs_faster_decoding_and_prefill_that_is_not_slower(
    one: float, some: float, many: float, paid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = {1: one, 16: some, 128: many}
    monkeypatch.setattr(timing, "speed_ratio", lambda ours, theirs, rows: gains[len(rows)])
    assert packing_is_faster(tiny("phi", **WIDE), TorchMatrix) is paid


def test_a_model_with_only_small_weights_is_not_packed() -> None:
    assert not packing_is_faster(tiny("phi"), TorchMatrix)


def test_the_sample_has_the_shape_that_has_most_values() -> None:
    sample = sample_of(list(find_weights(tiny("phi", **WIDE))))
    assert [tuple(item.weight.shape) for item in sample] == [(640, 64)] * 2


def test_a_sample_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SAMPLE", 1)
    packed_weights: list[Tensor] = []

    def pack(weight: Tensor, kind: NativeDtype, bias: Tensor | None) -> TorchMatrix:
        packed_weights.append(weight)
        return TorchMatrix(weight, kind, bias)

    packing_is_faster(tiny("phi", **WIDE).to(torch.bfloat16), pack)
    assert len(packed_weights) == 1 and packed_weights[0].dtype == torch.bfloat16
