"""The Writer of embedding responses; each dialect passes the function that renders its JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from inference.errors import ServerError
from inference.types import Embedded, Embedding, Event


class EmbeddingsWriter:
    """A Writer for unstreamed responses.

    render              converts the embeddings to the response body
    error_before_start  Writer.error_before_start of the dialect
    """

    def __init__(
        self,
        render: Callable[[Sequence[Embedding]], Any],
        error_before_start: Callable[[ServerError], tuple[int, Any]],
    ) -> None:
        self.render = render
        self.error_before_start = error_before_start
        self.embeddings: Sequence[Embedding] = ()

    def chunk(self, event: Event) -> list[Any]:
        assert isinstance(event, Embedded)
        self.embeddings = event.embeddings
        return []

    def full_response(self) -> Any:
        return self.render(self.embeddings)

    def error_in_stream(self, error: ServerError) -> list[Any]:
        return []
