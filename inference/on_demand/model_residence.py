"""The Residence of a model that a loader loads on demand."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

from inference.backend_info import ModelInfo
from inference.errors import Unavailable
from inference.on_demand.loader import ModelLoader
from inference.process.event_loop import run_on_loop
from inference.remote.failures import UpstreamFailure
from inference.remote.residence import with_reported

Result = TypeVar("Result")


class ModelResidence:
    """The Residence of one model of a loader."""

    def __init__(self, loader: ModelLoader, name: str) -> None:
        self._loader = loader
        self._model = loader.model(name)
        self._loop: asyncio.AbstractEventLoop | None = None

    def describe(self, info: ModelInfo) -> ModelInfo:
        """What the model's process said at its last load holds while the model is not in memory, too."""
        model = self._model
        reported = with_reported(info, model.info or info)
        return replace(reported, status=model.status, status_detail=model.status_detail)

    def problem(self) -> str:
        return self._model.problem

    @property
    def is_attached(self) -> bool:
        """Whether the server's event loop runs, so that `run` can."""
        return self._loop is not None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loader.attach(loop)

    def use(self, within_s: float = inf) -> AbstractAsyncContextManager[None]:
        return self._loader.use(self._model, within_s)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`, which calls the model's process. Blocks a thread other than the loop's.

        Raises ServerError.
        """
        if self._loop is None:
            work.close()
            raise Unavailable("the server is starting")
        try:
            return run_on_loop(self._loop, work)
        except UpstreamFailure as failure:
            raise failure.error from None
