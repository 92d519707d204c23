"""Keeps out of a process what torch, transformers and peft import and serving and training do not use.

transformers' model code decorates functions with torch._dynamo, torch's compiler, and names classes of
torch.distributed.tensor: with sympy, 1,400 modules and almost half of the time of all imports. torch itself
imports torch.export, and shape functions of a thousand operators in Python for tensors without values.

torch._dynamo is loaded when something other than its decorators is used, such as torch.compile; torch.export
when a name of it is used; the shape functions (META_KERNELS) where they are needed. A thousand patterns of
transformers' names of weights are compiled when they are used. transformers provides for a torch that was
built without torch.distributed, and so does peft; in a process that holds a whole model they take that way,
with the same results. A version of a library that needs more imports the packages as ever.
"""

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial, wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeVar

from inference.process import json_files
from inference.process.deferred_modules import (
    DeferredLoader,
    LoadedModule,
    is_deferred,
    load_module,
    with_loader,
)
from inference.process.exported_names import read_remembered

COMPILER = "torch._dynamo"
MARKS = ("allow_in_graph", "assume_constant_result")  # its decorators that return the function itself
MASK_TOOLS = "torch._dynamo._trace_wrapped_higher_order_op"  # its submodule that transformers imports
UNUSED = ("torch.quantization", "trio")  # its former name of torch.ao; httpcore imports trio if it is there
META_KERNELS = "torch._meta_registrations"
IMPORT_TOOLS = "transformers.utils.import_utils"
ADAPTER_TOOLS = "peft.tuners.tuners_utils"
OPERATOR_TOOLS = ("torch.library", "torch._library.utils")
TOKENIZERS = ("transformers.tokenization_utils_base", "transformers.tokenization_utils_tokenizers")
WEIGHT_RENAMING = "transformers.core_model_loading"
MODELS_FOLDER = "models"  # of transformers, with a folder for each of 500 architectures

T = TypeVar("T")


def defer_unused_imports(*, is_sharded: bool) -> None:
    """Defer torch's compiler, and torch.distributed.tensor unless the process computes a shard of a model.

    Call this before torch and transformers are imported; without an effect on what is imported already.
    """
    if not isinstance(sys.meta_path[0], DeferringFinder):
        sys.meta_path.insert(0, DeferringFinder(is_sharded))


def load_meta_kernels() -> bool:
    """Load torch's shape functions in Python. Returns whether they were deferred until now."""
    was_deferred = is_deferred(META_KERNELS)
    load_module(sys.modules.get(META_KERNELS))
    return was_deferred


def with_meta_kernels(call: Callable[[], T]) -> T:
    """call(), again with the shape functions if an operator has none in C++ for meta tensors."""
    try:
        return call()
    except NotImplementedError:
        if not load_meta_kernels():
            raise
    return call()


class DeferringFinder(MetaPathFinder):
    """Finds the modules that are loaded in another way, and none of the others."""

    def __init__(self, is_sharded: bool) -> None:
        self.loaders: dict[str, Callable[[Loader], Loader]] = {
            COMPILER: CompilerLoader,
            MASK_TOOLS: partial(TorchLoader, callables=["TransformGetItemToIndex"]),
            "torch.export": TorchLoader,
            META_KERNELS: MetaKernelsLoader,
            **dict.fromkeys(UNUSED, DeferredLoader),
            WEIGHT_RENAMING: partial(ReplacingLoader, replace=replace_patterns),
            **dict.fromkeys(OPERATOR_TOOLS, partial(ReplacingLoader, replace=replace_inspect)),
            **dict.fromkeys(TOKENIZERS, partial(ReplacingLoader, replace=replace_json)),
        }
        if not is_sharded:
            self.loaders[IMPORT_TOOLS] = partial(ReplacingLoader, replace=replace_import_tools)
            self.loaders[ADAPTER_TOOLS] = partial(ReplacingLoader, replace=replace_adapter_tools)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = name.rpartition(".")[0]
        if is_deferred(package) and name != MASK_TOOLS:
            load_module(sys.modules[package])
            if name in sys.modules:  # the package has imported it
                return LoadedModule.spec_for(sys.modules[name])
        if name in self.loaders:
            return with_loader(PathFinder.find_spec(name, path), self.loaders[name])
        return None


class ReplacingLoader(Loader):
    """Loads a module and replaces values of it. replace: returns the new ones by name, given all."""

    def __init__(self, loader: Loader, replace: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self.loader, self.replace = loader, replace

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        module.__dict__.update(self.replace(module.__dict__))


def replace_inspect(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where torch's tools for operators look for their caller, Python would look through all modules."""
    return {"inspect": variant_of(inspect, getmodule=module_of, getframeinfo=describe_frame)}


def replace_json(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """transformers parses a tokenizer.json twice."""
    return {"json": variant_of(json, load=json_files.load)}


def replace_patterns(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """transformers compiles a pattern for every renamed weight of every architecture."""
    return {"re": variant_of(re, compile=LazyPattern)}


def variant_of(module: ModuleType, **names: Any) -> ModuleType:
    """A copy of the module with other values of some names."""
    variant = ModuleType(module.__name__)
    variant.__dict__.update(vars(module) | names)
    return variant


def module_of(frame: FrameType) -> ModuleType | None:
    return sys.modules.get(frame.f_globals.get("__name__", ""))


def describe_frame(frame: FrameType) -> inspect.Traceback:
    """As inspect.getframeinfo, without lines of the source."""
    return inspect.Traceback(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, None, None)


class LazyPattern:
    """A regular expression that is compiled when it is used."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(*self.arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions, such as __deepcopy__
            raise AttributeError(name)
        return getattr(self.pattern, name)


def replace_import_tools(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """transformers' import tools miss torch.distributed, and read a folder only once."""
    replaced: dict[str, Any] = {"is_torch_distributed_available": lambda: False}
    name = "create_import_structure_from_path"
    return replaced | ({name: once_for_each_folder(names[name])} if name in names else {})


def replace_adapter_tools(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """peft takes no weight for a torch.distributed.tensor."""
    return {"_torch_supports_distributed": False}


def once_for_each_folder(read_folder: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reads the names that the files of a folder export once, those of all models not even at each start.

    transformers asks with the folder and with a file in it.
    """

    @cache
    def read_once(folder: str) -> Any:
        path = Path(folder)
        return read_remembered(read_folder, path) if path.name == MODELS_FOLDER else read_folder(folder)

    return lambda path: read_once(os.path.dirname(path) if os.path.isfile(path) else os.fspath(path))


class MetaKernelsLoader(DeferredLoader):
    """Defers torch's shape functions, which from torch 2.13 on import what makes torch.Generator usable."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if set_metaclass := getattr(sys.modules["torch._C"], "_set_generator_metaclass", None):
            set_metaclass(import_module("torch._opaque_base").OpaqueBaseMeta)


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
