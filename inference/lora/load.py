"""Loads an adapter into the model of this process, or removes it: tasks that all ranks run (executor.run).

A task is a generator that yields between short pieces of work: the model computes steps in between.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from inference.errors import ServerError, named_error
from inference.lora.build import build_weights
from inference.lora.check import check_adapter
from inference.lora.config import refusal
from inference.model.lora.runner import adapter_runner_of
from inference.model.lora.verify import UnusableAdapter, try_adapter
from inference.process.memory.memory_shortage import is_memory_shortage


class LoadedAdapter(NamedTuple):
    """What is known of an adapter once it is in memory.

    rank: the largest of its modules. nbytes: in the memory of this process.
    """

    rank: int
    nbytes: int


def load_adapter(model: Any, folder: str, number: int, max_rank: int) -> Generator[None, None, LoadedAdapter]:
    """Check, read and try the adapter in `folder`. Raises BadRequest; nothing has changed then."""
    checked = check_adapter(model, Path(folder), max_rank)
    yield
    adapter = yield from build_weights(model, checked, number)
    runner = adapter_runner_of(model)
    try:
        runner.add(adapter)
        try_adapter(runner, adapter)
        return LoadedAdapter(checked.rank, adapter.nbytes)
    except UnusableAdapter as error:
        runner.remove(number)
        raise refusal(f"cannot be served: {error}") from None
    except ServerError:
        runner.remove(number)
        raise
    except Exception as error:  # any model's code, with weights that it was not made for
        runner.remove(number)
        if is_memory_shortage(error):
            raise
        raise refusal(f"cannot be served: the model fails with it: {named_error(error)}") from error


def remove_adapter(model: Any, number: int) -> Generator[None, None, None]:
    """Give the adapter's memory back. No sequence may have it any more."""
    adapter_runner_of(model).remove(number)
    yield
