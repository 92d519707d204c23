"""The memory that a model's weights take, whichever tensor types they have, and that of the GPUs."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from inference.model.memory_usage import devices, weight_bytes

CUDA = torch.cuda.is_available()


def test_a_tensor_subclass_counts_its_inner_tensors() -> None:
    model = nn.Module()
    model.weight = nn.Parameter(TwoTensor(torch.ones(10), torch.ones(10)))
    assert weight_bytes(model) == {"cpu": 80}


def test_quantization_state_attached_to_a_weight_counts() -> None:
    model = nn.Linear(4, 4, bias=False)
    second = SimpleNamespace(absmax=torch.ones(2))
    model.weight.quant_state = SimpleNamespace(absmax=torch.ones(8), code=torch.ones(16), state2=second)
    assert weight_bytes(model) == {"cpu": 4 * (16 + 8 + 16 + 2)}


def test_shared_memory_counts_once() -> None:
    one, other = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    other.weight = nn.Parameter(one.weight.data)
    assert weight_bytes(nn.Sequential(one, other)) == {"cpu": 64}


@pytest.mark.skipif(CUDA, reason="for machines without CUDA")
def test_without_cuda_there_are_no_devices() -> None:
    assert devices() == ()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="for machines with CUDA")
def test_each_device_reports_its_memory_and_this_processes_share() -> None:
    before = devices()
    tensor = torch.zeros(1 << 24, dtype=torch.uint8, device="cuda:0")
    after = devices()
    assert len(after) == torch.cuda.device_count()
    assert after[0].allocated - before[0].allocated == tensor.nbytes
    assert after[0].allocated <= after[0].reserved <= after[0].total
    assert 0 < after[0].free < after[0].total and after[0].name
