"""How torch's compiler, its export and its shape functions in Python are loaded once they are used.

The shape functions compute the shapes of operators' results for tensors without values, on the meta device.
"""

import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from importlib import import_module
from importlib.abc import Loader
from types import ModuleType
from typing import Any, TypeVar

from inference.process.imports import common_meta_kernels
from inference.process.imports.deferred_modules import DeferredLoader, is_deferred, load_module

COMPILER = "torch._dynamo"
MARKS = ("allow_in_graph", "assume_constant_result")  # its decorators that return the function itself
META_KERNELS = "torch._meta_registrations"

T = TypeVar("T")


def load_meta_kernels() -> bool:
    """Load torch's shape functions in Python. Returns whether they were deferred until now."""
    was_deferred = is_deferred(META_KERNELS)
    load_module(sys.modules.get(META_KERNELS))
    return was_deferred


def register_common_kernels() -> None:
    """Make torch's shape functions unnecessary for most models."""
    if is_deferred(META_KERNELS):
        common_meta_kernels.register()


def with_meta_kernels(call: Callable[[], T], error: type[Exception] = NotImplementedError) -> T:
    """call(), again with the shape functions if an operator has none in C++ for meta tensors.

    error: what is raised then; code between may raise something else than the operator
    """
    try:
        return call()
    except error:
        if not load_meta_kernels():
            raise
    return call()


class MetaKernelsLoader(DeferredLoader):
    """Defers torch's shape functions, which from torch 2.13 on import what makes torch.Generator usable."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if set_metaclass := getattr(sys.modules["torch._C"], "_set_generator_metaclass", None):
            set_metaclass(import_module("torch._opaque_base").OpaqueBaseMeta)

    def load(self, module: ModuleType) -> None:
        common_meta_kernels.unregister()
        super().load(module)


class TorchLoader(DeferredLoader):
    """Defers a module that works on tensors without values: the shape functions are loaded before it."""

    def load(self, module: ModuleType) -> None:
        load_meta_kernels()
        super().load(module)


class CompilerLoader(TorchLoader):
    """Defers torch's compiler, with decorators that work before it is loaded."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        self.marked: list[tuple[str, Callable[..., Any]]] = []

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["disable"] = disable
        module.__dict__["graph_break"] = ignore_graph_break
        module.__dict__.update({name: self.make_decorator(name) for name in MARKS})

    def make_decorator(self, name: str) -> Callable[..., Any]:
        """The decorator `name`, which keeps the function for the package's own decorator."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.marked.append((name, function))
            return function

        return decorate

    def load(self, module: ModuleType) -> None:
        super().load(module)
        for name, function in self.marked:
            getattr(module, name)(function)


def disable(function: Callable[..., Any] | None = None, recursive: bool = True, **options: Any) -> Any:
    """torch._dynamo.disable for functions that may be called before the package is loaded.

    Nothing is compiled until then, so the function is called as it is. torch decorates some of its own, too.
    """
    if function is None:
        return partial(disable, recursive=recursive, **options)

    @cache
    def disabled() -> Callable[..., Any]:
        return sys.modules[COMPILER].disable(function, recursive, **options)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (function if is_deferred(COMPILER) else disabled())(*args, **kwargs)

    return call


def ignore_graph_break(message: str = "") -> None:
    """torch._dynamo.graph_break, without an effect outside compiled code. torch's optimizers call it."""
