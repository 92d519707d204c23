"""Tensors on other devices than their own, each copied once. Knows devices; not what a tensor means."""

import torch


class Copies:
    """Copies of tensors that nothing changes as long as these last: a call of the model, or a pass of it."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}

    def on(self, device: torch.device, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` itself where it is on `device`, else its copy there."""
        if tensor.device == device:
            return tensor
        key = id(tensor), device
        if key not in self.made:  # the tensor is kept as well: one that is gone leaves its id to another
            self.made[key] = tensor, tensor.to(device)
        return self.made[key][1]

    def clear(self) -> None:
        self.made.clear()
