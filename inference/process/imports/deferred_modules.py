"""Modules that are empty at their import and execute their code when a name is used that they lack.

Knows Python's import system; not which modules are deferred.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_loading = threading.RLock()  # as in importlib.util.LazyLoader: a module is loaded by one thread


class DeferredModule(ModuleType):
    """A module until its code has been executed."""

    def __init__(self, name: str, loader: "DeferredLoader") -> None:
        super().__init__(name)
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):  # Python's own questions, such as __wrapped__
            load_module(self)
        return ModuleType.__getattribute__(self, name)


class DeferredLoader(Loader):
    """Makes a DeferredModule at the import; `load` executes its code.

    callables: names of functions and classes that others import by name: they load the module when called
    """

    def __init__(self, loader: Loader, callables: Sequence[str] = ()) -> None:
        self.loader = loader
        self.callables = callables
        self.is_loading = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return DeferredModule(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        """Give the module the names that it has before its code is executed."""
        module.__dict__.update({name: partial(call_loaded, module, name) for name in self.callables})

    def load(self, module: ModuleType) -> None:
        """Execute the module's code."""
        self.is_loading = True
        try:
            self.loader.exec_module(module)
        finally:
            self.is_loading = False
        module.__class__ = ModuleType


class LoadedModule(Loader):
    """Answers with a module that was imported while it was looked for, so that its code runs once."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    @classmethod
    def spec_for(cls, module: ModuleType) -> ModuleSpec | None:
        """The module's own spec with this loader. Python takes it from the module."""
        module.__spec__ = with_loader(copy(module.__spec__), lambda _: cls(module))
        return module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def call_loaded(module: ModuleType, name: str, *args: Any, **kwargs: Any) -> Any:
    load_module(module)
    return getattr(module, name)(*args, **kwargs)


def load_module(module: ModuleType | None) -> None:
    """Execute the code of a deferred module if that has not begun."""
    with _loading:
        if isinstance(module, DeferredModule) and not module.loader.is_loading:
            module.loader.load(module)


def is_deferred(name: str) -> bool:
    """Whether the module is imported and its code is not executed yet."""
    return isinstance(sys.modules.get(name), DeferredModule)


def with_loader(spec: ModuleSpec | None, loader: Callable[[Loader], Loader]) -> ModuleSpec | None:
    if spec is not None and spec.loader is not None:
        spec.loader = loader(spec.loader)
    return spec
