"""Runs a model on the meta device for its shapes: code that reads a value gets 0.

Memory depends on shapes alone; models read values only for warnings, or to choose which part computes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from inference.process.imports.deferred_torch import with_meta_kernels

aten = torch.ops.aten


class MetaMode(TorchDispatchMode):
    """While active, a value read from a meta tensor is 0, and nonzero() finds every element."""

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        rule = RULES.get(func)
        if rule and isinstance(args[0], Tensor) and args[0].is_meta:
            return rule(args[0])
        return with_meta_kernels(partial(func, *args, **(kwargs or {})))


@contextmanager
def without_autocast() -> Iterator[None]:
    """Within the block, torch.autocast does nothing: peft switches it off where it changes experts.

    It is never on here, and torch has none for the meta device.
    """
    autocast = torch.autocast
    torch.autocast = lambda *args, **kwargs: nullcontext()  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        torch.autocast = autocast  # type: ignore[misc]


def zero(tensor: Tensor) -> Any:
    return torch.zeros((), dtype=tensor.dtype).item()


def all_indices(tensor: Tensor) -> Tensor:
    """The result of nonzero() if all elements are non-zero, (numel, dimensions): an upper bound."""
    return torch.empty(tensor.numel(), tensor.dim(), dtype=torch.int64, device="meta")


# Some operators arrive whole under inference mode and decomposed under other modes.
RULES: Mapping[Any, Callable[[Tensor], Any]] = {
    aten.item.default: zero,
    aten._local_scalar_dense.default: zero,
    aten.is_nonzero.default: lambda tensor: False,
    aten.nonzero.default: all_indices,
    aten.where.default: lambda tensor: list(all_indices(tensor).unbind(1)),
}
