"""The names of the served models and adapters: each resolves to a Served.

Does not know how a model or an adapter is loaded, nor how a dialect shows it.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference.backend import Backend
from inference.errors import NotFound
from inference.served import Card, Served, UnknownAdapter, find_adapter, listed_adapters, shorten_name

PLACEHOLDER_NAMES = frozenset({"", "tgi", "dummy"})  # clients of TGI send them, whatever the model
URL_SCHEMES = ("http://", "https://")  # huggingface.js sends its endpointUrl as the model's name


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
class ModelEntry:
    """A model to serve.

    names      its id, then its further names
    unlisted   names that requests may use, but that no list shows: the path of its folder
    is_remote  it runs on another server: this one is healthy without it, if it has a model of its own
    parent     id of the model that it was fine-tuned from; empty: it was not, and it is never removed
    """

    backend: Backend
    names: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    is_remote: bool = False
    parent: str = ""

    def under_name(self, name: str) -> Served:
        return Served(self.backend, Card(name, self.backend.info(), fine_tuned_from=self.parent))


class NameTable:
    """The names of some models: `listed` ones, and all that requests may use. Immutable.

    The last segment of an id is a name too, unless a model has it.
    """

    def __init__(self, entries: Sequence[ModelEntry]) -> None:
        self.entries = entries
        self.listed: dict[str, ModelEntry] = {}
        for entry in entries:
            for name in entry.names:
                self.listed.setdefault(name, entry)
        self.by_name = dict(self.listed)
        for entry in entries:
            for name in (entry.names[0].rpartition("/")[2], *entry.unlisted):
                self.by_name.setdefault(name, entry)
        self.backends = tuple(dict.fromkeys(entry.backend for entry in entries))


class Models:
    """The served models: at least one, the default first. Any thread may read and change them.

    Iteration yields every model under each of its names, then every adapter. A name that two models have is
    the first one's. Adapters come and go; the backends know them. An adapter also has the name
    model:adapter, as in SGLang.
    """

    def __init__(self, *entries: ModelEntry) -> None:
        self._table = NameTable(entries)
        self._lock = threading.Lock()  # for changes: readers see the table before or after one
        self._loop: asyncio.AbstractEventLoop | None = None

    def __iter__(self) -> Iterator[Served]:
        yield from (entry.under_name(name) for name, entry in self._table.listed.items())
        for backend in self.backends:
            info = backend.info()
            yield from (Served(backend, Card(card.name, info, card)) for card in listed_adapters(backend))

    @property
    def backends(self) -> tuple[Backend, ...]:
        """The backends of all models, each once."""
        return self._table.backends

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver the events of all backends on the server's event loop. Called once, on the loop."""
        with self._lock:
            self._loop = loop
            for backend in self.backends:
                backend.attach(loop)

    def add(self, entry: ModelEntry) -> None:
        """Serve another model from now on."""
        with self._lock:
            self._table = NameTable((*self._table.entries, entry))
            if self._loop is not None:
                self._loop.call_soon_threadsafe(entry.backend.attach, self._loop)

    def remove(self, name: str) -> None:
        """Serve the added model of this name no more. Its running answers go on."""
        with self._lock:
            entries = [entry for entry in self._table.entries if not (entry.parent and name in entry.names)]
            self._table = NameTable(entries)

    @property
    def default(self) -> Served:
        return self._table.entries[0].under_name(self._table.entries[0].names[0])

    @property
    def own(self) -> Served:
        """The model that adapters and training are for if a request names none.

        It is the first one that this process has loaded, else the first one that can load adapters, else the
        default.
        """
        entries = self._table.entries
        own = [entry for entry in entries if not entry.is_remote]
        own = own or [entry for entry in entries if entry.backend.adapters() is not None]
        entry = (own or entries)[0]
        return entry.under_name(entry.names[0])

    def close_remote(self) -> None:
        """Close the backends of the models on other servers, or in other processes."""
        for entry in self._table.entries:
            if entry.is_remote:
                entry.backend.close()

    @property
    def ids(self) -> str:
        """The ids of all models, quoted, for messages."""
        return ", ".join(repr(entry.names[0]) for entry in self._table.entries)

    def resolve(self, name: str | None) -> Served:
        """The model or adapter that a request names; no name and placeholders mean the default model.

        Raises UnknownModel.
        """
        if name is None:
            return self.default
        if served := self._find(name):
            return served
        if is_placeholder(name):
            return self.default
        raise UnknownModel(name, self.ids)

    def resolve_adapter(self, name: str) -> Served:
        """What a request names in a dialect's field for adapters: an adapter of any model, or a model.

        Raises UnknownAdapter.
        """
        if served := self._find(name):
            return served
        raise UnknownAdapter(name)

    def is_removable(self, name: str) -> bool:
        """Whether `name` is a fine-tuned model, not one that is served as long as the server runs."""
        entry = self._table.listed.get(name)
        return entry is not None and bool(entry.parent)

    def has_model(self, name: str) -> bool:
        """Whether a model, not an adapter, answers requests that name `name`."""
        return name in self._table.by_name or is_placeholder(name)

    def _find(self, name: str) -> Served | None:
        if entry := self._table.by_name.get(name):
            return entry.under_name(name)
        for backend in self.backends:
            if card := find_adapter(backend, name):
                return Served(backend, Card(name, backend.info(), card))
        for model, entry in self._table.by_name.items():
            if name.startswith(f"{model}:") and (
                card := find_adapter(entry.backend, name.removeprefix(f"{model}:"))
            ):
                return Served(entry.backend, Card(name, entry.backend.info(), card))
        return None

    def unavailable_reason(self) -> str:
        """Why a model of this machine cannot answer requests; empty if every one can.

        If all models run on other servers, the reason of the first one while none can answer.
        """
        own = [entry.backend for entry in self._table.entries if not entry.is_remote]
        reasons = [self._describe(backend) for backend in own or self.backends]
        if own:
            return next(filter(None, reasons), "")
        return reasons[0] if all(reasons) else ""

    def _describe(self, backend: Backend) -> str:
        reason = backend.unavailable_reason()
        return f"{backend.info().id}: {reason}" if reason and len(self.backends) > 1 else reason


def is_placeholder(name: str) -> bool:
    """Whether clients send `name` for want of a model's name: a known word, or the URL of a server."""
    return name in PLACEHOLDER_NAMES or name.lower().startswith(URL_SCHEMES)
