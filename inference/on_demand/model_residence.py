"""The Residence of a model that a loader loads on demand."""

import asyncio
from contextlib import AbstractAsyncContextManager

from inference.on_demand.loader import ModelLoader
from inference.types import ModelStatus


class ModelResidence:
    """The Residence of one model of a loader."""

    def __init__(self, loader: ModelLoader, name: str) -> None:
        self._loader = loader
        self._model = loader.model(name)

    def status(self) -> ModelStatus:
        return self._model.status

    def problem(self) -> str:
        return self._model.problem

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loader.attach(loop)

    def use(self) -> AbstractAsyncContextManager[None]:
        return self._loader.use(self._model)
