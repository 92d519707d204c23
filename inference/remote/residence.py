"""Whether an upstream's model is in memory: a model on another server always counts as loaded."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from math import inf
from typing import Protocol

from inference.backend_info import ModelInfo


class Residence(Protocol):
    """The memory of one model. All but `use` may be called from any thread."""

    def describe(self, info: ModelInfo) -> ModelInfo:
        """The info with the model's status, and with what is known of it since it was loaded."""
        ...

    def problem(self) -> str:
        """Why the model cannot be loaded; empty: it can, as far as is known."""
        ...

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work on the server's event loop. Called once, on the loop."""
        ...

    def use(self, within_s: float = inf) -> AbstractAsyncContextManager[None]:
        """Load the model if needed, and keep it in memory within the context. On the event loop.

        Raises ServerError if it is not loaded in time. within_s: seconds until the request's deadline.
        """
        ...


class AlwaysLoaded:
    """The Residence of a model on another server."""

    def describe(self, info: ModelInfo) -> ModelInfo:
        return info

    def problem(self) -> str:
        return ""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        pass

    def use(self, within_s: float = inf) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class RunningReplicas(AlwaysLoaded):
    """The Residence of a model that replicas have in memory. reported: what one of them says of it."""

    def __init__(self, reported: ModelInfo) -> None:
        self._reported = reported

    def describe(self, info: ModelInfo) -> ModelInfo:
        return with_reported(info, self._reported)


def with_reported(info: ModelInfo, reported: ModelInfo) -> ModelInfo:
    """The info with what a process says that has loaded the model."""
    return replace(reported, id=info.id, created=info.created, details={**reported.details, **info.details})
