"""Copies to the device and back."""

import pytest
import torch

from inference.model.device_copy import copy_to_host, to_device


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_values_are_unchanged_by_copies_to_the_device_and_back(device: str) -> None:
    values = torch.arange(12, dtype=torch.int32).view(3, 4)
    device_values = to_device(values[:, 1:], torch.device(device))
    assert device_values.device.type == device
    back = copy_to_host(device_values * 2)
    assert back.device.type == "cpu"
    assert torch.equal(back, 2 * values[:, 1:])


@pytest.mark.gpu
def test_a_copy_to_the_device_does_not_synchronize() -> None:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        to_device(torch.zeros(100), torch.device("cuda"))
    finally:
        torch.cuda.set_sync_debug_mode(before)
