"""A pass that fails or is interrupted leaves the gradients as they were."""

import pytest
import torch
from torch import nn

from tuning.trainer.whole_passes import Interruption, PassInterrupted, whole_pass


def test_gradients_of_whole_passes_add_up() -> None:
    weight = nn.Parameter(torch.ones(2))
    for _ in range(3):
        with whole_pass([weight]):
            weight.sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [3, 3]


def test_an_interrupted_pass_adds_nothing() -> None:
    layer, interruption = nn.Linear(2, 1, bias=False), Interruption()
    interruption.watch(layer)
    with whole_pass(layer.parameters()):
        layer(torch.ones(1, 2)).sum().backward()
    interruption.set()
    with pytest.raises(PassInterrupted), whole_pass(layer.parameters()):
        layer.weight.sum().backward()
        layer(torch.ones(1, 2))
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[1, 1]]
