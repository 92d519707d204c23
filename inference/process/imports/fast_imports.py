"""The imports of a process that serves or trains, in a third of their time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from inference.process.imports.deferred_imports import defer_unused_imports
from inference.process.imports.remembered_code import remember_dataclass_methods


@contextmanager
def fast_imports(*, is_sharded: bool) -> Iterator[None]:
    """Import torch, transformers and this project's modules within the block, for the first time.

    Defers what is unused, also after the block. Disables garbage collection within it, then exempts what was
    created meanwhile: the imported modules live as long as the process. Collecting over them again and again,
    the last time at exit, took more than a third of a --check.

    is_sharded: the process computes a shard of a model
    """
    defer_unused_imports(is_sharded=is_sharded)
    remember_dataclass_methods()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
