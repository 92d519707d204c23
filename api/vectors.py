"""From the one event of what embeds to a dialect's JSON. Each dialect says how the vectors are told."""

from collections.abc import Callable, Sequence
from typing import Any

from inference.errors import ServerError
from inference.types import Embedded, Embedding, Event


class VectorsWriter:
    """A Writer of whole answers. `failed` is the dialect's way to say an error."""

    def __init__(
        self,
        told: Callable[[Sequence[Embedding]], Any],
        failed: Callable[[ServerError], tuple[int, Any]],
    ) -> None:
        self.told = told
        self.failed = failed
        self.found: Sequence[Embedding] = ()

    def chunk(self, event: Event) -> list[Any]:
        assert isinstance(event, Embedded)
        self.found = event.embeddings
        return []

    def whole(self) -> Any:
        return self.told(self.found)

    def broken(self, error: ServerError) -> list[Any]:
        return []
