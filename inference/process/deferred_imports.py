"""Keeps out of a serving process the packages that transformers imports and serving does not use.

transformers' model code decorates functions with torch._dynamo, torch's compiler, and names classes of
torch.distributed.tensor: with sympy, 1,400 modules and almost half of the time of all imports.

torch._dynamo is loaded when something other than its decorators is used, such as torch.compile. transformers
provides for a torch that was built without torch.distributed; in a process that holds a whole model it takes
that way, with the same results. A version of either library that needs more imports the packages as ever.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, partial, wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from inference.process.exported_names import read_remembered

COMPILER = "torch._dynamo"
MARKS = ("allow_in_graph", "assume_constant_result")  # its decorators that return the function itself
STANDALONE = "torch._dynamo._trace_wrapped_higher_order_op"  # its submodule that needs no other one of it
IMPORT_TOOLS = "transformers.utils.import_utils"
MODELS_FOLDER = "models"  # of transformers, with a folder for each of 500 architectures

_loading = threading.RLock()  # as in importlib.util.LazyLoader: a package is loaded by one thread


def defer_unused_imports(*, is_sharded: bool) -> None:
    """Defer torch's compiler, and torch.distributed.tensor unless the process computes a shard of a model.

    Call this before transformers is imported; without an effect on what is imported already.
    """
    if not isinstance(sys.meta_path[0], DeferringFinder):
        sys.meta_path.insert(0, DeferringFinder(is_sharded))


class DeferringFinder(MetaPathFinder):
    """Finds the modules that are loaded in another way, and none of the others."""

    def __init__(self, is_sharded: bool) -> None:
        self.is_sharded = is_sharded

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(f"{COMPILER}.") and name != STANDALONE:
            load_package(sys.modules[COMPILER])
            if name in sys.modules:  # the package has imported it
                return LoadedModule.spec_for(sys.modules[name])
        if name == COMPILER:
            return with_loader(PathFinder.find_spec(name, path), CompilerLoader)
        if name == IMPORT_TOOLS and not self.is_sharded:
            return with_loader(PathFinder.find_spec(name, path), ImportToolsLoader)
        return None


def with_loader(spec: ModuleSpec | None, loader: Callable[[Loader], Loader]) -> ModuleSpec | None:
    if spec is not None and spec.loader is not None:
        spec.loader = loader(spec.loader)
    return spec


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


class ImportToolsLoader(Loader):
    """Loads transformers' import tools, and makes them miss torch.distributed and read a folder only once."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        module.__dict__["is_torch_distributed_available"] = lambda: False
        if read_folder := module.__dict__.get("create_import_structure_from_path"):
            module.__dict__["create_import_structure_from_path"] = once_for_each_folder(read_folder)


def once_for_each_folder(read_folder: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reads the names that the files of a folder export once, those of all models not even at each start.

    transformers asks with the folder and with a file in it.
    """

    @cache
    def read_once(folder: str) -> Any:
        path = Path(folder)
        return read_remembered(read_folder, path) if path.name == MODELS_FOLDER else read_folder(folder)

    return lambda path: read_once(os.path.dirname(path) if os.path.isfile(path) else os.fspath(path))


class CompilerLoader(Loader):
    """Makes an empty package at the import; `load` executes its code."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.marked: list[tuple[str, Callable[..., Any]]] = []
        self.is_loading = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return DeferredCompiler(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["disable"] = disable
        module.__dict__.update({name: self.make_decorator(name) for name in MARKS})

    def make_decorator(self, name: str) -> Callable[..., Any]:
        """The decorator `name`, which keeps the function for the package's own decorator."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.marked.append((name, function))
            return function

        return decorate

    def load(self, module: ModuleType) -> None:
        """Execute the package's code in the module."""
        self.is_loading = True
        try:
            self.loader.exec_module(module)
        finally:
            self.is_loading = False
        module.__class__ = ModuleType
        for name, function in self.marked:
            getattr(module, name)(function)


class DeferredCompiler(ModuleType):
    """torch._dynamo until a name is used that it does not have yet."""

    def __init__(self, name: str, loader: "CompilerLoader") -> None:
        super().__init__(name)
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):  # Python's own questions, such as __wrapped__
            load_package(self)
        return ModuleType.__getattribute__(self, name)


def load_package(module: ModuleType) -> None:
    """Execute the package's code if that has not begun."""
    with _loading:
        if isinstance(module, DeferredCompiler) and not module.loader.is_loading:
            module.loader.load(module)


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
        is_deferred = isinstance(sys.modules[COMPILER], DeferredCompiler)
        return (function if is_deferred else disabled())(*args, **kwargs)

    return call
