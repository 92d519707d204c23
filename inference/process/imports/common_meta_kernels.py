"""Shape functions of the operators that almost all models need on the meta device.

torch has them in Python, with those of a thousand others: 500 modules, which need not be imported then. The
results have the shapes and dtypes of torch's.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


@cache
def register() -> Any:
    """Register the functions. Returns the library that holds them, which `unregister` takes away."""
    torch = import_module("torch")
    library = torch.library.Library("aten", "IMPL", "Meta")
    for name, function in KERNELS.items():
        library.impl(name, function)
    return library


def unregister() -> None:
    """Make room for torch's own. Without an effect if none was registered."""
    if register.cache_info().currsize:
        register()._destroy()
        register.cache_clear()


def where(condition: Any, first: Any, second: Any) -> Any:
    torch = import_module("torch")
    shape = torch.broadcast_tensors(condition, first, second)[0].shape
    return torch.empty(shape, dtype=torch.result_type(first, second), device="meta")


def where_out(condition: Any, first: Any, second: Any, *, out: Any) -> Any:
    return out.resize_(where(condition, first, second).shape)


def index_select(tensor: Any, dim: int, index: Any) -> Any:
    shape = list(tensor.shape)
    if shape:
        shape[dim] = index.numel()
    return tensor.new_empty(shape)


def relu(tensor: Any) -> Any:
    return tensor.new_empty(tensor.shape)


def batch_norm(
    tensor: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *options: Any
) -> Any:
    """layer_norm is computed by it."""
    statistics = tensor.new_empty((tensor.shape[1] if training else 0,))
    return tensor.new_empty(tensor.shape), statistics, statistics.new_empty(statistics.shape)


KERNELS: Mapping[str, Callable[..., Any]] = {
    "where.self": where,
    "where.self_out": where_out,
    "index_select": index_select,
    "relu": relu,
    "native_batch_norm": batch_norm,
}
