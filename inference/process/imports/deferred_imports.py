"""Keeps out of a process what torch, transformers and peft import and serving and training do not use.

transformers' model code decorates functions with torch._dynamo, torch's compiler, and names classes of
torch.distributed.tensor: with sympy, 1,400 modules and almost half of the time of all imports. torch itself
imports torch.export, and shape functions of a thousand operators in Python for tensors without values.

torch._dynamo is loaded when something other than its decorators is used, such as torch.compile; torch.export
when a name of it is used; the shape functions where they are needed (deferred_torch.py), and most models need
only those in common_meta_kernels.py. Other modules are imported with less work (patched_modules.py). A
version of a library that needs more imports the packages as ever.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from inference.process.imports.deferred_modules import (
    DeferredLoader,
    LoadedModule,
    is_deferred,
    load_module,
    with_loader,
)
from inference.process.imports.deferred_torch import (
    COMPILER,
    META_KERNELS,
    CompilerLoader,
    MetaKernelsLoader,
    TorchLoader,
)
from inference.process.imports.patched_modules import PATCHES, PATCHES_WITHOUT_DISTRIBUTED, PatchingLoader

MASK_TOOLS = "torch._dynamo._trace_wrapped_higher_order_op"  # its submodule that transformers imports
UNUSED = ("torch.quantization", "trio")  # its former name of torch.ao; httpcore imports trio if it is there


def defer_unused_imports(*, is_sharded: bool) -> None:
    """Defer torch's compiler, and torch.distributed.tensor unless the process computes a shard of a model.

    Call this before torch and transformers are imported; without an effect on what is imported already.
    """
    if not isinstance(sys.meta_path[0], DeferringFinder):
        sys.meta_path.insert(0, DeferringFinder(is_sharded))


class DeferringFinder(MetaPathFinder):
    """Finds the modules that are loaded in another way, and none of the others."""

    def __init__(self, is_sharded: bool) -> None:
        self.loaders: dict[str, Callable[[Loader], Loader]] = {
            COMPILER: CompilerLoader,
            MASK_TOOLS: partial(TorchLoader, callables=["TransformGetItemToIndex"]),
            "torch.export": TorchLoader,
            META_KERNELS: MetaKernelsLoader,
            **dict.fromkeys(UNUSED, DeferredLoader),
        }
        patches = PATCHES if is_sharded else PATCHES | PATCHES_WITHOUT_DISTRIBUTED
        for name, patch in patches.items():
            self.loaders[name] = partial(PatchingLoader, patch=patch)

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
