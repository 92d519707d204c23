"""The Residence of a model that a loader loads on demand."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from inference.on_demand.loader import ModelLoader
from inference.types import ModelInfo


class ModelResidence:
    """The Residence of one model of a loader."""

    def __init__(self, loader: ModelLoader, name: str) -> None:
        self._loader = loader
        self._model = loader.model(name)

    def describe(self, info: ModelInfo) -> ModelInfo:
        """What the model's process said at its last load holds while the model is not in memory, too."""
        model = self._model
        reported = model.info or info
        return replace(
            reported,
            id=info.id,
            created=info.created,
            details={**reported.details, **info.details},
            status=model.status,
            status_detail=model.status_detail,
        )

    def problem(self) -> str:
        return self._model.problem

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loader.attach(loop)

    def use(self) -> AbstractAsyncContextManager[None]:
        return self._loader.use(self._model)
