"""What serves whole models that jobs have trained."""

from pathlib import Path
from typing import Protocol


class ModelHost(Protocol):
    """Serves models by their names, beside the base. Both methods return at once, from any thread."""

    def add(self, name: str, folder: Path, parent: str) -> None:
        """Serve the model in `folder` from now on; it is loaded when a request names it.

        parent: the name of the model that it was trained from
        """
        ...

    def remove(self, name: str) -> None:
        """Serve it no more. Its running answers end first. Raises NotFound."""
        ...
