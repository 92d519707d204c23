"""Whether native products pay: timed on some of the model's own weights, at few rows and at many."""

import time

import pytest
import torch
from torch import Tensor

from inference.model.weights import pays as timing
from inference.model.weights.found import find
from inference.model.weights.pays import pays, sample_of
from inference.native.structs import Kind
from tests.families import tiny
from tests.model.weights.kept import Kept

WIDE = {"hidden_size": 64, "intermediate_size": 640}  # layers (640, 64) hold most of its values


class Idle(Kept):
    """Takes a moment longer than torch, whatever it is given."""

    def linear(self, x: Tensor) -> Tensor:
        time.sleep(0.002)
        return super().linear(x)


def test_what_takes_longer_does_not_pay() -> None:
    assert not pays(tiny("phi", **WIDE), Idle)


@pytest.mark.parametrize(
    ("one", "some", "many", "paid"),
    [
        (2.0, 0.8, 1.0, True),
        (0.8, 2.0, 1.0, True),
        (1.0, 1.0, 2.0, False),
        (2.0, 2.0, 0.8, False),
    ],
)
def test_it_pays_where_answers_are_faster_and_prompts_not_slower(
    one: float, some: float, many: float, paid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = {1: one, 16: some, 128: many}
    monkeypatch.setattr(timing, "gain", lambda ours, theirs, given: gains[len(given)])
    assert pays(tiny("phi", **WIDE), Kept) is paid


def test_a_model_of_small_weights_alone_is_left_as_it_is() -> None:
    assert not pays(tiny("phi"), Kept)


def test_the_sample_is_of_the_shape_that_most_values_are_in() -> None:
    sample = sample_of(list(find(tiny("phi", **WIDE))))
    assert [tuple(found.weight.shape) for found in sample] == [(640, 64)] * 2


def test_a_sample_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SAMPLE", 1)
    packed: list[Tensor] = []

    def pack(weight: Tensor, kind: Kind, bias: Tensor | None) -> Kept:
        packed.append(weight)
        return Kept(weight, kind, bias)

    pays(tiny("phi", **WIDE).to(torch.bfloat16), pack)
    assert len(packed) == 1 and packed[0].dtype == torch.bfloat16
