"""A stand-in for a native matrix: the weight as it was given, multiplied by torch."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.native.structs import Kind


class Kept:
    """Counts its products and look-ups."""

    def __init__(self, weight: Tensor, kind: Kind, bias: Tensor | None = None) -> None:
        self.kind = kind
        self.weight = weight.detach().float().clone()
        self.bias = None if bias is None else bias.detach().float()
        self.used = 0

    def linear(self, x: Tensor) -> Tensor:
        self.used += 1
        return linear(x.float(), self.weight, self.bias).to(x.dtype)

    def rows(self, ids: Tensor) -> Tensor:
        self.used += 1
        return self.weight[ids]

    def unpack(self, dtype: torch.dtype) -> Tensor:
        return self.weight.to(dtype, copy=True)
