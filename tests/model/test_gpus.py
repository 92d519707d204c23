"""What is told of GPUs, where there are any."""

import pytest
import torch

from inference.model.gpus import devices

CUDA = torch.cuda.is_available()


@pytest.mark.skipif(CUDA, reason="for machines without CUDA")
def test_without_cuda_there_is_none() -> None:
    assert devices() == ()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="for machines with CUDA")
def test_each_device_tells_its_memory_and_this_processes_share() -> None:
    before = devices()
    kept = torch.zeros(1 << 24, dtype=torch.uint8, device="cuda:0")
    after = devices()
    assert len(after) == torch.cuda.device_count()
    assert after[0].allocated - before[0].allocated == kept.nbytes
    assert after[0].allocated <= after[0].reserved <= after[0].total
    assert 0 < after[0].free < after[0].total and after[0].name
