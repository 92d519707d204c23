"""A GPU is lost if it refuses to synchronize; GPUs that this process does not use stay untouched."""

import pytest
import torch

from inference.model.lost_device import is_device_lost

ILLEGAL = "CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize("lost_gpu", [None, 1, 2])
def test_a_used_gpu_that_cannot_synchronize_is_lost(
    lost_gpu: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronized = []

    def synchronize(gpu: int) -> None:
        synchronized.append(gpu)
        if gpu == lost_gpu:
            raise RuntimeError(ILLEGAL)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: (1 << 20, 1 << 20, 0)[gpu])
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    assert is_device_lost() == (lost_gpu == 1)
    assert synchronized == [0, 1], "GPU 2 has no memory of this process"


def test_without_a_gpu_none_is_lost() -> None:
    assert torch.cuda.is_available() or not is_device_lost()
