"""What answers a request: a backend, or an adapter within it, under the name that the request uses.

Knows backends by their protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.backend import Backend, Stream
from inference.backend_info import ModelInfo
from inference.errors import BadRequest, NotFound
from inference.lora.adapter import AdapterCard
from inference.types import GenerationRequest

MAX_SHOWN_CHARS = 200  # of a name from a request, in a message


class UnknownAdapter(NotFound):
    """No adapter has this name. name: shortened for messages."""

    def __init__(self, name: str) -> None:
        self.name = shorten_name(name)
        super().__init__(f"Adapter '{self.name}' not found: GET /v1/models lists the loaded adapters")


@dataclass(frozen=True, slots=True)
class Card:
    """A model under one of its names: the one that a request used, or one that lists of models show.

    info     of the base model, if it is an adapter
    adapter  None: the model itself
    fine_tuned_from  id of the model whose weights were all trained on; empty: this was not
    """

    name: str
    info: ModelInfo
    adapter: AdapterCard | None = None
    fine_tuned_from: str = ""

    @property
    def parent(self) -> str | None:
        """The id of the model that this one comes from; None: it is no fine-tuned one."""
        return self.info.id if self.adapter else self.fine_tuned_from or None


@dataclass(frozen=True, slots=True)
class Served:
    """What answers a request: a model, or an adapter of it."""

    backend: Backend
    card: Card

    @property
    def adapter(self) -> str | None:
        """The name of the adapter within the backend; None: the model itself."""
        return self.card.adapter.name if self.card.adapter else None

    def generate(self, request: GenerationRequest) -> Stream:
        """As Backend.generate, with the adapter."""
        return self.backend.generate(replace(request, adapter=self.adapter) if self.adapter else request)

    def embed(self, inputs: Sequence[str | Sequence[int]], *, in_background: bool = False) -> Stream:
        """As Backend.embed. Raises BadRequest for an adapter: embeddings are those of the model itself."""
        if self.card.adapter:
            rule = f"is an adapter, and embeddings are those of the model itself: name {self.card.info.id}"
            raise BadRequest("model", rule, shorten_name(self.card.name))
        return self.backend.embed(inputs, in_background=in_background)

    def computed_with(self, adapter: AdapterCard) -> "Served":
        """The same under the same name, with an adapter of the same backend."""
        return Served(self.backend, Card(self.card.name, self.card.info, adapter))

    def with_adapter(self, name: str) -> "Served":
        """The adapter `name` of the same backend. Raises UnknownAdapter."""
        adapter = find_adapter(self.backend, name)
        if adapter is None:
            raise UnknownAdapter(name)
        return Served(self.backend, Card(name, self.card.info, adapter))


def adapter_cards(backend: Backend) -> Sequence[AdapterCard]:
    """The loaded adapters of the backend."""
    adapters = backend.adapters()
    return adapters.cards() if adapters else ()


def listed_adapters(backend: Backend) -> Sequence[AdapterCard]:
    """The adapters that have a source of their own: sums of others have none."""
    return [card for card in adapter_cards(backend) if card.source]


def find_adapter(backend: Backend, name: str) -> AdapterCard | None:
    return next((card for card in adapter_cards(backend) if card.name == name), None)


def shorten_name(name: str) -> str:
    """A name from a request, cut to MAX_SHOWN_CHARS characters for an error message."""
    return name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}…"
