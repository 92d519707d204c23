"""The story of a start, once the settings are known: verdict, fetch, load, serve.

Knows every floor, and of each only its door; wiring.py says to each what it needs of the settings.
"""

import contextlib
import gc
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from ahead import Source
from api import create_app
from api.front.exporter import exporting
from api.front.serve import serve as serve_http
from checks import environment
from checks.finding import Refused
from checks.machine import Machine, overhead
from checks.machine.limits import raise_open_files
from checks.plan import Plan
from examine import Verdict, examine, show, tell
from inference.backend import Backend
from inference.errors import ServerError
from inference.heap import give_back
from inference.metrics import Metrics
from inference.native import prepared
from inference.opening import Opened
from selftest import selftest
from selftest.firstbatch import STEPS, FirstBatch, Seen
from selftest.ledger import Entry, Ledger
from selftest.told import as_json, as_table, proof_as_json, proof_as_table
from settings.fields import Settings
from wiring import app_settings, backend_of, fetched, load

log = logging.getLogger("hearth")

# When memory is told of, besides when the model is ready.
FULL, NOT_FULL = "memory, first full batch", f"memory, {STEPS} steps"
LOOPBACK = ("127.", "::1", "localhost")


def check(settings: Settings, source: Source, *, as_json: bool) -> int:
    """Print the verdict; 0 where the model would be served."""
    verdict = examine(settings, source)
    show(verdict, as_json=as_json)
    return 0 if verdict.ok else 1


def describe(version: str) -> int:
    """Print what this machine and its libraries are."""
    print(environment.report(version))
    return 0


def prove(settings: Settings, source: Source, *, as_json: bool) -> int:
    """Open the model as for serving, on no port, and print what became of its answers; 0 if all is well."""
    verdict = examine(replace(settings, port=0, prometheus_port=0), source)
    if not verdict.ok or verdict.plan is None:
        show(verdict, as_json=as_json)
        return 1
    opened = loaded(settings, verdict.plan, verdict.machine)
    if opened is None:
        return 1
    settle()
    ledger = Ledger(verdict.plan, verdict.machine, opened)
    try:
        entries = ledger.loaded()
        findings = opened.worker.do(partial(selftest, opened))
        entries += ledger.served()
    finally:
        opened.crew.close()
    write = proof_as_json if as_json else proof_as_table
    print(write(findings, entries))
    return 0 if all(finding.ok for finding in findings) else 1


def download(settings: Settings, source: Source) -> int:
    """Check and fetch, and print where the model is then; 0 if all of it is there."""
    verdict = examine(replace(settings, port=0, prometheus_port=0), source)
    tell(verdict.findings, settings, verdict.fitting, verdict.files)
    if not verdict.ok or verdict.plan is None:
        return 1
    try:
        folder = fetched(settings, verdict.plan)
    except Refused as error:
        tell([error.finding], settings)
        return 1
    print(json.dumps({"folder": str(folder)}) if settings.json_output else folder)
    return 0


def serve(settings: Settings, source: Source, version: str) -> int:
    """Check, fetch, load, and serve until a signal. The exit code."""
    verdict = examine(settings, source)
    tell(verdict.findings, settings, verdict.fitting, verdict.files)
    if not verdict.ok or verdict.plan is None:
        return 1
    opened = loaded(settings, verdict.plan, verdict.machine)
    if opened is None:
        return 1
    raise_open_files()
    metrics = Metrics()
    backend = backend_of(settings, opened, metrics)
    settle()
    account(settings, verdict, opened, metrics)
    warn_if_open(settings)
    try:
        return answer(settings, backend, metrics, version)
    finally:
        backend.close()


def settle() -> None:
    """What is loaded stays: a full collection that walks it would hold up every stream. What loading and
    trying the seats have left goes back to the system, a tenth of all memory."""
    gc.collect()
    gc.freeze()
    prepared.give_back()
    give_back()


def account(settings: Settings, verdict: Verdict, opened: Opened, metrics: Metrics) -> None:
    """Tell what memory was predicted and what came: now, and once all rows were taken. The next start learns
    from it, of a step only where that was as large as it may be; not from processes that share a model, which
    are another case than one alone."""
    plan = verdict.plan
    assert plan is not None
    ledger = Ledger(plan, verdict.machine, opened)
    note("memory, ready", ledger.loaded(), settings, metrics)
    learn = partial(overhead.learn, plan.device) if plan.shards == 1 else unlearned
    learn(ledger.shown())

    def over(seen: Seen) -> None:
        with contextlib.suppress(ServerError):  # the server is about to end
            entries = ledger.served()
            note(FULL if seen.rows else NOT_FULL, entries, settings, metrics)
            if seen.rows and seen.tokens:
                learn(ledger.factor(entries))

    opened.engine.watch_with(FirstBatch(opened.engine, metrics.stepped, over))


def unlearned(shown: Mapping[str, float]) -> None:
    """Keep nothing of it."""


def note(title: str, entries: Sequence[Entry], settings: Settings, metrics: Metrics) -> None:
    """Print the entries as the findings are, and show them as metrics."""
    print(as_json(title, entries) if settings.json_output else as_table(title, entries), flush=True)
    for entry in entries:
        metrics.remembered(entry.term, entry.predicted, entry.actual)


def loaded(settings: Settings, plan: Plan, machine: Machine) -> Opened | None:
    """Fetch and open the model; None where that is refused, the reason told."""
    try:
        return load(settings, plan, machine)
    except Refused as error:
        tell([error.finding], settings)
    except ServerError as error:
        print(f"hearth: {error.message}", file=sys.stderr)
    return None


def answer(settings: Settings, backend: Backend, metrics: Metrics, version: str) -> int:
    """Serve the backend, and the figures on a port of their own where one is set."""
    with contextlib.ExitStack() as stack:
        if settings.prometheus_port:
            stack.enter_context(exporting(metrics.render, settings.host, settings.prometheus_port))
        front = app_settings(settings, version)
        return serve_http(
            create_app(backend, front, metrics),
            backend,
            host=settings.host,
            port=settings.port,
            drain_seconds=settings.drain_seconds,
            max_body=front.max_body_bytes,
            workers=settings.validation_workers,
        )


def warn_if_open(settings: Settings) -> None:
    if not settings.api_keys and not settings.host.startswith(LOOPBACK):
        log.warning("HOST=%s lets everyone on its networks in: set API_KEYS to ask for a key", settings.host)
