"""A model without values computes, for the shapes of what it makes: whoever asks for a value is told 0.

What a model keeps depends on shapes alone; a value decides whether to warn, or which part of it computes.
Knows torch's operators; nothing of models.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Blind(TorchDispatchMode):
    """While it is entered, tensors on the meta device hold zeros for whoever looks at one value, and anything
    but zeros for whoever looks for the places of those."""

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        rule = RULES.get(func)
        if rule and isinstance(args[0], Tensor) and args[0].is_meta:
            return rule(args[0])
        return func(*args, **(kwargs or {}))


def zero(tensor: Tensor) -> Any:
    return torch.zeros((), dtype=tensor.dtype).item()


def places(tensor: Tensor) -> Tensor:
    """The indices (numel, dimensions) of all its values: as many as there can be."""
    return torch.empty(tensor.numel(), tensor.dim(), dtype=torch.int64, device="meta")


# Some of these come whole, some taken apart: what inference mode leaves whole, other modes do not.
RULES: Mapping[Any, Callable[[Tensor], Any]] = {
    aten.item.default: zero,
    aten._local_scalar_dense.default: zero,
    aten.is_nonzero.default: lambda tensor: False,
    aten.nonzero.default: places,
    aten.where.default: lambda tensor: list(places(tensor).unbind(1)),
}
