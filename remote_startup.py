"""The start of models on other servers: opens them, and reports what --check finds about them.

inference/remote is imported here only if there are such models: its HTTP client takes 0.2 s to import.
"""

import sys

from checks.machine import find_port_error
from checks.machine.limits import max_open_files
from checks.network import check_open_files, check_port
from checks.preflight import format_json, format_table
from inference.backend import Backend
from inference.errors import ServerError
from inference.finding import Finding
from inference.metrics import Metrics
from inference.models import ModelEntry, Models
from settings.model_list import LocalModel, RemoteModel
from settings.schema import Settings


def open_remote_models(settings: Settings, metrics: Metrics) -> list[ModelEntry] | None:
    """The models of other servers, in their order. Prints the reason and returns None if one is refused."""
    if not settings.models.remote:
        return []
    from inference.remote.open import open_models

    try:
        return open_models(settings.models.remote, metrics.upstream)
    except ServerError as error:
        print(f"hearth: {error.message}", file=sys.stderr)
        return None


def join_models(settings: Settings, backend: Backend, remote_entries: list[ModelEntry]) -> Models:
    """All models in the order of MODELS: the first one answers requests that name none.

    backend: of the model on this machine
    """
    names = (backend.info().id, *settings.served_names)
    own_entry = ModelEntry(backend, names, unlisted=(settings.model_name,))
    remaining = iter(remote_entries)
    places = settings.models.entries or (LocalModel(settings.model_name),)
    return Models(*(next(remaining) if isinstance(place, RemoteModel) else own_entry for place in places))


def check_remote(settings: Settings, *, as_json: bool) -> int:
    """Print what can be known before the start. Returns 0 if all models would be served, else 1."""
    findings = [
        check_port(settings.host, settings.port, find_port_error(settings.host, settings.port)),
        check_open_files(settings.max_concurrent_requests, max_open_files()),
        *(check_model(model) for model in settings.models.remote),
    ]
    print(format_json(findings) if as_json else format_table(findings))
    return 0 if all(finding.ok for finding in findings) else 1


def check_model(model: RemoteModel) -> Finding:
    """Ask the model's server whether it responds, and open the model as the start would."""
    from inference.remote.detect import probe
    from inference.remote.open import open_model

    (detected,) = probe((model,))
    name, need = f"model {model.name}".strip(), f"a server of the kind {model.server.kind}"
    try:
        entry = open_model(model, detected, Metrics().upstream)
    except ServerError as error:
        return Finding(name, need, "not served", False, error.message)
    if detected.problem:
        return Finding(name, need, "no response", True, f"{detected.problem}: it is served once it responds")
    return Finding(name, need, entry.backend.info().details["server"], True)
