"""What the dialects' embedding routes share: size and scale of vectors, and the Writer of responses."""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from api.body.json_body import encode
from inference.backend_info import ModelInfo
from inference.errors import BadRequest, ServerError
from inference.events import Embedded, Embedding, Event


class EmbeddingsWriter:
    """A Writer for unstreamed responses.

    Each vector is encoded when it arrives: all at once would keep other streams waiting.

    render_item         converts the embedding of the input with this index
    render              converts the JSON of all items in order, and the tokens of all inputs, to the body
    error_before_start  Writer.error_before_start of the dialect
    """

    def __init__(
        self,
        render_item: Callable[[int, Embedding], Any],
        render: Callable[[list[msgspec.Raw], int], Any],
        error_before_start: Callable[[ServerError], tuple[int, Any]],
    ) -> None:
        self.render_item = render_item
        self.render = render
        self.error_before_start = error_before_start
        self._items: dict[int, msgspec.Raw] = {}
        self._num_tokens = 0

    def chunk(self, event: Event) -> list[Any]:
        assert isinstance(event, Embedded)
        self._items[event.index] = msgspec.Raw(encode(self.render_item(event.index, event.embedding)))
        self._num_tokens += event.embedding.num_tokens
        return []

    def full_response(self) -> bytes:
        items = [self._items[index] for index in sorted(self._items)]
        return msgspec.json.encode(self.render(items, self._num_tokens))

    def error_in_stream(self, error: ServerError) -> list[Any]:
        return []


def check_size(size: int | None, field: str, info: ModelInfo) -> None:
    """Raises BadRequest(field) for a size that the model's embeddings cannot have."""
    sizes = info.embedding_sizes
    if size is None or size in sizes:
        return
    if not sizes:
        raise BadRequest(field, "must be left out: this model has no sizes to choose from", size)
    if len(sizes) == 1:
        raise BadRequest(field, f"must be {sizes[0]}, the only size of this model's embeddings", size)
    allowed = f"between 1 and {sizes[-1]}" if len(sizes) == sizes[-1] else f"one of {tuple(sizes)}"
    raise BadRequest(field, f"must be {allowed}, the sizes of this model's embeddings", size)


def make_vector(embedding: Embedding, size: int | None = None, normalize: bool = True) -> tuple[float, ...]:
    """The first `size` numbers of the embedding, all by default, scaled to length 1.

    normalize: False gives the numbers of the mean of the hidden states as they are.
    """
    vector = embedding.vector[:size]
    if not normalize:
        return tuple([value * embedding.norm for value in vector])
    if len(vector) == len(embedding.vector):
        return vector
    length = math.hypot(*vector) or 1.0
    return tuple([value / length for value in vector])
