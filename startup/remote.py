"""The start of models on other servers: opens them, and says what --check finds about them.

inference/remote is imported here only if there are such models: its HTTP client takes 0.2 s to import.
"""

import sys
from collections.abc import Sequence

from checks.machine import find_port_error
from checks.machine.limits import max_open_files
from checks.resources.network import check_open_files, check_port
from inference.errors import ServerError
from inference.finding import Finding
from inference.metrics import Metrics
from inference.models import ModelEntry, Models
from settings.remote_model import RemoteModel
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


def join_models(
    settings: Settings, remote_entries: Sequence[ModelEntry], local_entries: Sequence[ModelEntry]
) -> Models:
    """All models in the order of MODELS: the first one answers requests that name none."""
    if not settings.models.entries:
        return Models(*local_entries)
    remote, local = iter(remote_entries), iter(local_entries)
    return Models(
        *(next(remote if isinstance(each, RemoteModel) else local) for each in settings.models.entries)
    )


def check_remote(settings: Settings) -> list[Finding]:
    """What can be known before the start about the server, and about its models on other servers."""
    return [
        check_port(settings.host, settings.port, find_port_error(settings.host, settings.port)),
        check_open_files(settings.max_concurrent_requests, max_open_files()),
        *(check_model(model) for model in settings.models.remote),
    ]


def check_model(model: RemoteModel) -> Finding:
    """Ask the model's server whether it responds, and open the model as the start would."""
    from inference.remote.detect import probe
    from inference.remote.open import open_model

    detected = probe(model.at_each_server)
    name, need = f"model {model.name}".strip(), f"a server of the kind {model.server.kind}"
    try:
        entry = open_model(model, detected, Metrics().upstream)
    except ServerError as error:
        return Finding(name, need, "not served", False, error.message)
    if problem := next((each.problem for each in detected if each.problem), ""):
        return Finding(name, need, "no response", True, f"{problem}: it is served once it responds")
    return Finding(name, need, entry.backend.info().details["server"], True)
