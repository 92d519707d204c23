"""Loads and unloads adapters while the server runs: checks the name, finds the folder, and calls the backend.

Knows names, the fence of ADAPTER_DIRS and the Hub. What an adapter's files must hold is known to the backend.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from flask import Flask, current_app

from hub.fetch_adapter import split_source
from inference.backend import Adapters, Backend
from inference.errors import BadRequest, ServerError, short
from inference.finding import NOT_FETCHED, Refused
from inference.lora.adapter import AdapterCard, check_own_name
from inference.lora.config import read_base_name
from inference.lora.fence import Fence, is_gguf_file
from inference.lora.sum import Summand, write_sum
from inference.models import Models, UnknownModel
from inference.served import find_adapter, listed_adapters, shorten_name
from settings.adapter_list import AdapterEntry, parse_entry

LOADER = "adapter_loader"  # key in app.extensions: the AdapterLoader
FENCE_RULE = "must be the folder of an adapter below ADAPTER_DIRS"
FENCE_OR_HUB_RULE = f"{FENCE_RULE}, or owner/name on the Hub"

PUBLIC_FINDINGS = ("access", "adapter")  # the others may name folders of this machine

log = logging.getLogger(__name__)

FetchAdapter = Callable[[str, str], Path]  # (name on the Hub, revision) -> folder; raises Refused


class IsBaseModel(BadRequest):
    """The name is that of the model itself, which cannot be removed."""

    def __init__(self, name: str) -> None:
        super().__init__("model", "is the model itself, which is served as long as the server runs", name)


class AdapterLoader:
    """Loads adapters into the backends of the models. An adapter's name belongs to one model.

    adapter_dirs  folders below which a client's folders must lie
    fetch         fetches an adapter from the Hub; None: clients cannot name one there
    """

    def __init__(
        self, models: Models, adapter_dirs: Sequence[str], fetch: FetchAdapter | None = None
    ) -> None:
        self._models = models
        self._fence = Fence(adapter_dirs)
        self._fetch = fetch

    def cards(self) -> Sequence[AdapterCard]:
        return [card for backend in self._models.backends for card in listed_adapters(backend)]

    def find(self, name: str) -> AdapterCard | None:
        base = self._base_of(name)
        return find_adapter(base, name) if base else None

    def load(
        self, name: str, source: str, *, base_model: str | None = None, replace: bool = False
    ) -> AdapterCard:
        """Load the adapter that a client names. Raises ServerError; nothing has changed then.

        Blocks while files are fetched and read. The fields in errors are those of vLLM's request.
        base_model: a name of its model; None: of the one that has an adapter of this name, else Models.own
        """
        base = self._choose_base(name, base_model)
        adapters = require_adapters(base)
        self.check_name(name)
        folder = self._folder(source)
        card = adapters.load(name, folder, source, replace=replace)
        warn_of_other_base(base, folder, name)
        return card

    def load_at_start(self, entry: AdapterEntry) -> AdapterCard:
        """Load an adapter of LORA_ADAPTERS, which may lie anywhere. Raises ServerError or Refused."""
        base = self._models.own.backend
        adapters = require_adapters(base)
        self.check_name(entry.name)
        folder = Path(entry.source).expanduser()
        if not folder.is_dir() and not is_gguf_file(folder):
            if self._fetch is None or split_source(entry.source) is None:
                raise BadRequest("", f"{entry.source} is neither a folder nor owner/name on the Hub")
            folder = self._fetch(entry.source, entry.revision)
        card = adapters.load(entry.name, folder.resolve(), entry.source)
        warn_of_other_base(base, folder, entry.name)
        return card

    def unload(self, name: str) -> None:
        """Raises UnknownModel, or IsBaseModel for the name of the model."""
        self.check_is_removable(name)
        base = self._base_of(name)
        if base is None:
            raise UnknownModel(name, self._models.ids)
        require_adapters(base).unload(name)

    def check_is_removable(self, name: str) -> None:
        """Raises IsBaseModel for the name of a model that was not fine-tuned here."""
        if self._models.has_model(name) and not self._models.is_removable(name):
            raise IsBaseModel(name)

    def check_name(self, name: str) -> None:
        """Raises BadRequest for a name that is malformed, that of a model, or that of a sum."""
        check_own_name(name, self._models.has_model)

    def _base_of(self, name: str) -> Backend | None:
        """The backend of the model that has the adapter."""
        return next((each for each in self._models.backends if find_adapter(each, name)), None)

    def _choose_base(self, name: str, base_model: str | None) -> Backend:
        """The backend to load the adapter into. Raises UnknownModel and BadRequest."""
        current = self._base_of(name)
        if base_model is None:
            return current or self._models.own.backend
        served = self._models.resolve(base_model)
        if served.adapter:
            raise BadRequest("base_model_name", "must be a model, not an adapter", shorten_name(base_model))
        if current not in (None, served.backend):
            raise BadRequest("lora_name", f"is an adapter of {current.info().id}: choose another one", name)
        return served.backend

    def _folder(self, source: str) -> Path:
        if folder := self._fence.find(source):
            return folder
        on_hub = split_source(source)
        if self._fetch is None or on_hub is None:
            raise BadRequest("lora_path", FENCE_OR_HUB_RULE if self._fetch else FENCE_RULE, source)
        try:
            return self._fetch(*on_hub)
        except Refused as error:
            log.warning("adapter not fetched: source=%s: %s", source, error.finding.have)
            reason = error.finding.have if error.finding.name in PUBLIC_FINDINGS else NOT_FETCHED
            raise BadRequest("lora_path", f"{FENCE_OR_HUB_RULE} ({reason})", source) from None


def require_adapters(backend: Backend) -> Adapters:
    """Raises BadRequest for a model that is served without adapters."""
    adapters = backend.adapters()
    if adapters is None:
        raise BadRequest("", "this model is served without adapters")
    return adapters


def warn_of_other_base(base: Backend, folder: Path, name: str) -> None:
    """Log that a loaded adapter names another model, one of the same shapes."""
    base_name = read_base_name(folder) if folder.is_dir() else ""
    served_name = base.info().id
    if base_name and served_name.rpartition("/")[2].lower() not in base_name.lower():
        log.warning(
            "adapter=%s was trained over %s, and is served over %s", name, short(base_name), served_name
        )


def load_adapters(models: Models, items: Iterable[str], fetch: FetchAdapter | None) -> str:
    """Load the adapters of LORA_ADAPTERS. Returns why one of them cannot be served; empty: all are loaded."""
    loader = AdapterLoader(models, (), fetch)
    for item in items:
        try:
            card = loader.load_at_start(parse_entry(item))
            check_scale(models.own.backend, parse_entry(item))
        except Refused as error:
            return f"{item}: {error.finding.have}: {error.finding.fix}"
        except ServerError as error:
            return f"{item}: {error.message}"
        log.info("adapter loaded: name=%s rank=%d bytes=%d", card.name, card.rank, card.nbytes)
    return ""


def check_scale(backend: Backend, entry: AdapterEntry) -> None:
    """Raises BadRequest if requests could not be answered with the adapter's scale."""
    if entry.scale in (0.0, 1.0):
        return
    with TemporaryDirectory() as folder:
        write_sum([Summand(require_adapters(backend).folder_of(entry.name), entry.scale)], Path(folder))


def install(app: Flask, loader: AdapterLoader) -> None:
    app.extensions[LOADER] = loader


def adapter_loader() -> AdapterLoader:
    """The running app's loader."""
    loader: AdapterLoader = current_app.extensions[LOADER]
    return loader
