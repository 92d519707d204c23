"""The served models and their names: a name resolves to a backend, and an adapter within it.

Knows backends by their protocol. Does not know how a model is loaded, nor how a dialect shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from inference.backend import Backend, Stream
from inference.errors import NotFound
from inference.types import GenerationRequest, ModelInfo

PLACEHOLDER_NAMES = frozenset({"", "tgi", "dummy"})  # clients of TGI send them, whatever the model
URL_SCHEMES = ("http://", "https://")  # huggingface.js sends its endpointUrl as the model's name
MAX_SHOWN_CHARS = 200


class UnknownModel(NotFound):
    """No served model has this name.

    name    the name, shortened for messages
    served  the ids of the served models, quoted
    """

    def __init__(self, name: str, served: str) -> None:
        self.name = shorten_name(name)
        self.served = served
        super().__init__(f"Model '{self.name}' not found: this server has {served}")


@dataclass(frozen=True, slots=True)
class Card:
    """A model under one of its names: the one that a request used, or one that lists of models show."""

    name: str
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class Served:
    """What answers a request. adapter: name of an adapter within the backend; None: the model itself."""

    backend: Backend
    adapter: str | None
    card: Card

    def generate(self, request: GenerationRequest) -> Stream:
        """As Backend.generate, with the adapter."""
        return self.backend.generate(replace(request, adapter=self.adapter) if self.adapter else request)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model to serve. names: its id, then its further names."""

    backend: Backend
    names: tuple[str, ...]
    adapter: str | None = None

    def under_name(self, name: str) -> Served:
        return Served(self.backend, self.adapter, Card(name, self.backend.info()))


class Models:
    """The served models: at least one, the default first. Immutable, hence safe to read from any thread.

    Iteration yields every model under each of its names. A name that two models have is the first one's. The
    last segment of an id resolves too, unless a model has that name.

    backends  the backends of all models, each once
    """

    def __init__(self, *entries: ModelEntry) -> None:
        self._entries = entries
        self._listed: dict[str, ModelEntry] = {}
        for entry in entries:
            for name in entry.names:
                self._listed.setdefault(name, entry)
        self._by_name = dict(self._listed)
        for entry in entries:
            self._by_name.setdefault(entry.names[0].rpartition("/")[2], entry)
        self.backends = tuple(dict.fromkeys(entry.backend for entry in entries))

    def __iter__(self) -> Iterator[Served]:
        return (entry.under_name(name) for name, entry in self._listed.items())

    @property
    def default(self) -> Served:
        return self._entries[0].under_name(self._entries[0].names[0])

    @property
    def ids(self) -> str:
        """The ids of all models, quoted, for messages."""
        return ", ".join(repr(entry.names[0]) for entry in self._entries)

    def resolve(self, name: str | None) -> Served:
        """The model of a request that names `name`; no name and placeholders mean the default model.

        Raises UnknownModel.
        """
        if name is None:
            return self.default
        entry = self._by_name.get(name)
        if entry is not None:
            return entry.under_name(name)
        if is_placeholder(name):
            return self.default
        raise UnknownModel(name, self.ids)

    def unavailable_reason(self) -> str:
        """Why a model cannot answer requests; empty if every model can."""
        for backend in self.backends:
            if reason := backend.unavailable_reason():
                return reason if len(self.backends) == 1 else f"{backend.info().id}: {reason}"
        return ""


def is_placeholder(name: str) -> bool:
    """Whether clients send `name` for want of a model's name: a known word, or the URL of a server."""
    return name in PLACEHOLDER_NAMES or name.lower().startswith(URL_SCHEMES)


def shorten_name(name: str) -> str:
    """A name from a request, cut to MAX_SHOWN_CHARS characters for an error message."""
    return name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}…"
