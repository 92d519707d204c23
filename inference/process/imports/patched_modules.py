"""Modules of torch, transformers and peft in which a few names have other values, with the same results.

They do less, or do it once. transformers provides for a torch that was built without torch.distributed, and
so does peft; in a process that holds a whole model they take that way.
"""

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from inference.process import json_files
from inference.process.imports.exported_names import read_remembered

MODELS_FOLDER = "models"  # of transformers, with a folder for each of 500 architectures

# The values to replace, by name, given all values of the module.
Patch = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class PatchingLoader(Loader):
    """Loads a module and replaces values of it, as the patch says."""

    def __init__(self, loader: Loader, patch: Patch) -> None:
        self.loader, self.patch = loader, patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        module.__dict__.update(self.patch(module.__dict__))


def patch_inspect(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where torch's tools for operators look for their caller, Python would look through all modules."""
    return {"inspect": variant_of(inspect, getmodule=module_of, getframeinfo=describe_frame)}


def patch_json(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """transformers parses a tokenizer.json twice."""
    return {"json": variant_of(json, load=json_files.load)}


def patch_patterns(names: Mapping[str, Any]) -> Mapping[str, Any]:
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


def patch_import_tools(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """transformers' import tools miss torch.distributed, and read a folder only once."""
    replaced: dict[str, Any] = {"is_torch_distributed_available": lambda: False}
    name = "create_import_structure_from_path"
    return replaced | ({name: once_for_each_folder(names[name])} if name in names else {})


def patch_adapter_tools(names: Mapping[str, Any]) -> Mapping[str, Any]:
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


# By the name of the module; the second table is for processes that compute no shard of a model.
PATCHES: dict[str, Patch] = {
    "transformers.core_model_loading": patch_patterns,
    "torch.library": patch_inspect,
    "torch._library.utils": patch_inspect,
    "transformers.tokenization_utils_base": patch_json,
    "transformers.tokenization_utils_tokenizers": patch_json,
}
PATCHES_WITHOUT_DISTRIBUTED: dict[str, Patch] = {
    "transformers.utils.import_utils": patch_import_tools,
    "peft.tuners.tuners_utils": patch_adapter_tools,
}
