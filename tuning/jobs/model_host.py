"""ModelHost: the interface to what serves fully fine-tuned models, and the adapters over them."""

from pathlib import Path
from typing import Protocol


class ModelHost(Protocol):
    """Serves models by their names, beside the base. Every method may be called from any thread."""

    def add(self, name: str, folder: Path, parent: str) -> None:
        """Serve the model in `folder` from now on; it is loaded when a request names it. Returns at once.

        parent: the name of the model that it was trained from
        """
        ...

    def add_adapter(self, base: str, name: str, folder: Path, *, is_tried: bool) -> None:
        """Serve the adapter in `folder` over the added model `base`, with which it is loaded.

        is_tried: load the model now, if there is memory for it, and try the adapter in it
        Raises NotFound if there is no such model, and BadRequest for files that do not fit it.
        """
        ...

    def remove(self, name: str) -> None:
        """Serve a model, or an adapter over one, no more. Its running answers end first. Raises NotFound."""
        ...
