"""Numbers to the device and back."""

import pytest
import torch

from inference.engine.transfer import fetched, sent


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_numbers_arrive_as_they_left(device: str) -> None:
    values = torch.arange(12, dtype=torch.int32).view(3, 4)
    there = sent(values[:, 1:], torch.device(device))
    assert there.device.type == device
    back = fetched(there * 2)
    assert back.device.type == "cpu"
    assert torch.equal(back, 2 * values[:, 1:])


@pytest.mark.gpu
def test_nobody_waits_for_what_is_sent() -> None:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        sent(torch.zeros(100), torch.device("cuda"))
    finally:
        torch.cuda.set_sync_debug_mode(before)
