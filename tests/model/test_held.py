"""What a model's weights hold of memory, whatever they are made of."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from inference.model.held import weights_on


def test_a_tensor_made_of_others_is_as_large_as_they_are() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(TwoTensor(torch.ones(10), torch.ones(10)))
    assert weights_on(model) == {"cpu": 80}


def test_what_a_weight_has_beside_it_counts() -> None:
    model = nn.Linear(4, 4, bias=False)
    second = SimpleNamespace(absmax=torch.ones(2))
    model.weight.quant_state = SimpleNamespace(absmax=torch.ones(8), code=torch.ones(16), state2=second)
    assert weights_on(model) == {"cpu": 4 * (16 + 8 + 16 + 2)}


def test_shared_memory_counts_once() -> None:
    one, other = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    other.weight = nn.Parameter(one.weight.data)
    assert weights_on(nn.Sequential(one, other)) == {"cpu": 64}
