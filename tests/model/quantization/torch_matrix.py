"""A stand-in for a packed matrix: keeps the weight unchanged and multiplies with torch."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.native.structs import NativeDtype


class TorchMatrix:
    """Counts its matmuls and look-ups in `used`, and the rows that it multiplied in `num_rows`."""

    def __init__(self, weight: Tensor, kind: NativeDtype, bias: Tensor | None = None) -> None:
        self.kind = kind
        self.weight = weight.detach().float().clone()
        self.bias = None if bias is None else bias.detach().float()
        self.used = self.num_rows = 0

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def linear(self, x: Tensor) -> Tensor:
        self.used += 1
        self.num_rows += x.shape[:-1].numel()
        return linear(x.float(), self.weight, self.bias).to(x.dtype)

    def rows(self, ids: Tensor) -> Tensor:
        self.used += 1
        return self.weight[ids]

    def unpacked_ranges(self, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        yield 0, self.unpack(dtype)

    def unpack(self, dtype: torch.dtype) -> Tensor:
        return self.weight.to(dtype, copy=True)
