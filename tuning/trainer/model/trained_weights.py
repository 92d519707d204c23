"""What a run trains: an adapter over the frozen base here, all weights in full_weights.py."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from torch import nn

from tuning.trainer.model.lora import PeftAdapters


class TrainedWeights(Protocol):
    """The weights of one run."""

    def activate(self) -> None:
        """Compute with these weights; they alone get gradients."""
        ...

    def parameters(self) -> Mapping[str, nn.Parameter]:
        """What the optimizer changes, in float32, by name."""
        ...

    def apply_step(self) -> None:
        """After a step of the optimizer: let the model compute with the new values."""
        ...

    def save(self, folder: Path) -> None:
        """Write what is served into an existing folder."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write what `load` reads, with every bit that the next step depends on."""
        ...

    def load(self, folder: Path) -> None:
        """Take the values that save_state wrote. Raises BadRequest if they are not of these weights."""
        ...

    def remove(self) -> None:
        """Take them out of the model, or freeze them."""
        ...


class TrainedAdapter:
    """An adapter that was added to the base model under `name`."""

    def __init__(self, adapters: PeftAdapters, name: str) -> None:
        self._adapters, self._name = adapters, name

    def activate(self) -> None:
        self._adapters.activate(self._name)

    def parameters(self) -> Mapping[str, nn.Parameter]:
        return self._adapters.parameters(self._name)

    def apply_step(self) -> None:
        """The model computes with the parameters themselves."""

    def save(self, folder: Path) -> None:
        self._adapters.save(self._name, folder)

    def save_state(self, folder: Path) -> None:
        self._adapters.save(self._name, folder)

    def load(self, folder: Path) -> None:
        self._adapters.load(self._name, folder)

    def remove(self) -> None:
        self._adapters.remove(self._name)
