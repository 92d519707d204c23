"""The story of a start, once the settings are known: port, model, machine, verdict, fetch, load, serve.

Knows every floor, and of each only its door.
"""

import gc
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

import checks
from api import create_app
from api.serve import serve as serve_http
from api.settings import AppSettings
from checks import Finding, Refused, memory, port
from checks.fetch import fetch
from checks.hub import Hub
from checks.machine import Machine, look
from checks.plan import Plan, plan
from checks.repository import find
from inference.backend import Backend
from inference.errors import ServerError
from inference.metrics import Metrics
from inference.model.place import device_of
from inference.opening import open_backend
from settings import Settings

log = logging.getLogger("hearth")

LOOPBACK = ("127.", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks found; `plan` is None where they did not come that far."""

    findings: tuple[Finding, ...]
    machine: Machine
    plan: Plan | None

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def check(settings: Settings, home: Path, *, as_json: bool) -> int:
    """Print the verdict; 0 where the model would be served."""
    verdict = examine(settings, home)
    print(checks.as_json(verdict.findings) if as_json else checks.table(verdict.findings))
    return 0 if verdict.ok else 1


def serve(settings: Settings, home: Path, version: str) -> int:
    """Check, fetch, load, and serve until a signal. The exit code."""
    verdict = examine(settings, home)
    print(checks.table(verdict.findings), flush=True)
    if not verdict.ok or verdict.plan is None:
        return 1
    try:
        metrics = Metrics()
        backend = load(settings, verdict.plan, verdict.machine, metrics)
    except Refused as error:
        print(checks.table([error.finding]), flush=True)
        return 1
    except ServerError as error:
        print(f"hearth: {error.message}", file=sys.stderr)
        return 1
    gc.collect()
    gc.freeze()  # what is loaded stays: a full collection that walks it would hold up every stream
    warn_if_open(settings)
    try:
        return serve_http(
            create_app(backend, app_settings(settings, version), metrics),
            backend,
            host=settings.host,
            port=settings.port,
            drain_seconds=settings.drain_seconds,
            max_body=int(settings.max_body_mb * 1e6),
        )
    finally:
        backend.close()


def examine(settings: Settings, home: Path) -> Verdict:
    """Look at the machine and the model, and compare. Nothing but small files is fetched."""
    machine = look(cache=hub_of(settings).cache, host=settings.host, port=settings.port)
    listening = port.check(settings.host, settings.port, machine.taken)
    try:
        planned = plan_of(settings, home, machine)
    except Refused as error:
        return Verdict((listening, error.finding), machine, None)
    return Verdict((listening, *checks.run(planned, machine)), machine, planned)


def plan_of(settings: Settings, home: Path, machine: Machine) -> Plan:
    device = device_of(settings.device)
    repository = find(
        settings.model_name,
        settings.model_revision,
        home=home,
        hub=hub_of(settings),
        offline=settings.offline,
        code=settings.trust_remote_code,
    )
    return plan(
        repository,
        device=device,
        dtype=settings.dtype,
        bfloat16=device in machine.bfloat16,
        context=settings.context,
        rows=settings.max_sequences,
        kv=int(settings.kv_memory_gb * 1e9),
        code=settings.trust_remote_code,
    )


def load(settings: Settings, planned: Plan, machine: Machine, metrics: Metrics) -> Backend:
    """Fetch what is missing and open the model. Raises Refused or ServerError."""
    assert planned.measure is not None
    folder = fetch(planned.repository, hub_of(settings))
    share = memory.budget(planned, machine)
    return open_backend(
        folder,
        model_id=public_name(settings.model_name),
        dtype=planned.measure.dtype,
        device=planned.device,
        context=share.context,
        max_rows=settings.max_sequences,
        kv_bytes=share.kv,
        max_batch_tokens=settings.max_batch_tokens,
        max_queued_tokens=settings.max_queued_tokens,
        trust_remote_code=settings.trust_remote_code,
        metrics=metrics,
    )


def public_name(model: str) -> str:
    """What clients call the model: its name on the Hub, or the last part of a folder's path."""
    return Path(model).expanduser().resolve().name if model.startswith(("/", ".", "~")) else model


def app_settings(settings: Settings, version: str) -> AppSettings:
    return AppSettings(
        version=version,
        api_keys=settings.api_keys,
        cors_origins=settings.cors_origins,
        max_body_bytes=int(settings.max_body_mb * 1e6),
        stream_format=settings.stream_format,
        model_aliases=settings.served_names,
        max_tokens=settings.default_max_tokens or None,
        temperature=settings.default_temperature,
        deadline_s=settings.request_timeout or None,
    )


def hub_of(settings: Settings) -> Hub:
    cache = Path(settings.cache_dir or constants.HF_HUB_CACHE).expanduser()
    return Hub(constants.ENDPOINT, cache, settings.huggingface_access_token)


def warn_if_open(settings: Settings) -> None:
    if not settings.api_keys and not settings.host.startswith(LOOPBACK):
        log.warning("HOST=%s lets everyone on its networks in: set API_KEYS to ask for a key", settings.host)
