"""The actions of main.py: check, download, self-test, serve.

Connects the entry points of checks, hub, inference and api, and gives each its group of settings.
"""

import contextlib
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from api import create_app
from api.adapters import FetchAdapter, load_adapters
from api.api_keys import make_key_check
from api.body_limits import make_body_limit
from api.concurrency_limit import make_early_refusal
from api.model_loading import ModelLoading
from api.server.metrics_port import serve_metrics
from api.server.serve import check_certificate
from api.server.serve import serve as serve_http
from api.store.store import open_store
from checks import enough_memory, environment
from checks.machine import Machine
from checks.machine.limits import raise_open_file_limit
from checks.memory.plan import Plan
from checks.preflight import PreflightReport, preflight, print_findings, print_report
from hub.download import fetch
from hub.download.progress import Progress
from hub.fetch_adapter import fetch_adapter
from hub.resolve import PendingRepository, make_hub
from inference.backend import Backend
from inference.errors import ServerError
from inference.factory import LoadedEngine, open_backend, open_engine
from inference.finding import Refused
from inference.freeze_gc import freeze_gc
from inference.metrics import Metrics
from inference.models import ModelEntry, Models
from inference.selftest import selftest
from inference.selftest.full_batch import REPORT_AFTER_STEPS, FullBatchWatcher
from inference.selftest.memory_report import MemoryReport, MemoryTerm
from inference.selftest.report import (
    format_memory_json,
    format_memory_table,
    format_selftest_json,
    format_selftest_table,
)
from remote_startup import join_models, open_remote_models
from settings.device_defaults import fill_defaults
from settings.groups import EngineSettings, ModelSettings, group, server_settings
from settings.schema import BadSetting, Settings
from tuning.service import TuningService
from tuning_startup import open_tuning

log = logging.getLogger("hearth")

# Titles of the second memory report; the first, "memory, ready", is printed when the model is ready.
FULL_BATCH_TITLE, PARTIAL_BATCH_TITLE = "memory, first full batch", f"memory, {REPORT_AFTER_STEPS} steps"


def check(settings: Settings, pending: PendingRepository, *, as_json: bool) -> int:
    """Print the preflight report. Returns 0 if the model would be served, else 1. Raises BadSetting."""
    check_tls(settings)
    report = preflight(settings, pending)
    print_report(report, as_json=as_json)
    return 0 if report.ok else 1


def print_environment(version: str) -> int:
    """Print the versions of the libraries and the hardware of this machine. Returns 0."""
    print(environment.report(version))
    return 0


def run_selftest(settings: Settings, pending: PendingRepository, *, as_json: bool) -> int:
    """Open the model as for serving, but without a port, and run the self-test. Returns 0 if it passes."""
    report = preflight(without_ports(replace(settings, lora_adapters=())), pending)
    if not report.ok or report.plan is None:
        print_report(report, as_json=as_json)
        return 1
    settings = fill_defaults(settings, report.plan.device)
    loaded_engine = load_or_explain(settings, report.plan, report.machine)
    if loaded_engine is None:
        return 1
    freeze_gc()
    memory_report = MemoryReport(report.plan, report.machine, loaded_engine)
    try:
        memory_terms = memory_report.terms_when_ready()
        findings = loaded_engine.engine_thread.run(partial(selftest, loaded_engine))
        memory_terms += memory_report.terms_when_full()
    finally:
        loaded_engine.executor.close()
    render = format_selftest_json if as_json else format_selftest_table
    print(render(findings, memory_terms))
    return 0 if all(finding.ok for finding in findings) else 1


def download(settings: Settings, pending: PendingRepository) -> int:
    """Check and fetch the model, and print its folder. Returns 0 if the model is complete."""
    report = preflight(without_ports(settings), pending)
    print_findings(report.findings, settings, report.suggestions, report.files_to_fetch)
    if not report.ok or report.plan is None:
        return 1
    try:
        folder = fetch_model(settings, report.plan)
    except Refused as error:
        print_findings([error.finding], settings)
        return 1
    print(json.dumps({"folder": str(folder)}) if settings.json_output else folder)
    return 0


def without_ports(settings: Settings) -> Settings:
    """Settings of a start that listens nowhere."""
    return replace(settings, host="localhost", port=0, prometheus_port=0)


def serve(settings: Settings, pending: PendingRepository, version: str) -> int:
    """Check, fetch, load, and serve until a signal. Returns the exit code. Raises BadSetting."""
    check_tls(settings)
    report = preflight(settings, pending)
    print_findings(report.findings, settings, report.suggestions, report.files_to_fetch)
    if not report.ok or report.plan is None:
        return 1
    settings = fill_defaults(settings, report.plan.device)
    metrics = Metrics()
    if (remote_entries := open_remote_models(settings, metrics)) is None:
        return 1
    loaded_engine = load_or_explain(settings, report.plan, report.machine)
    if loaded_engine is None:
        return 1
    raise_open_file_limit()
    backend = make_backend(settings, loaded_engine, metrics)
    names = (backend.info().id, *settings.served_names)
    own_entry = ModelEntry(backend, names, unlisted=(settings.model_name,))
    models = join_models(settings, remote_entries, [own_entry])
    if reason := load_adapters(models, settings.lora_adapters, make_adapter_fetch(settings)):
        print(f"hearth: LORA_ADAPTERS: {reason}", file=sys.stderr)
        backend.close()
        return 1
    freeze_gc()
    report_memory(settings, report, loaded_engine, metrics)
    with contextlib.closing(backend), contextlib.ExitStack() as stack:
        model_folder = loaded_engine.folder / report.plan.repository.gguf_file
        tuning, loader = stack.enter_context(
            open_tuning(settings, models, model_folder, report.plan, report.machine, metrics)
        )
        return run_server(settings, models, metrics, tuning, version, loader)


def check_tls(settings: Settings) -> None:
    """Raise BadSetting if the TLS certificate cannot be served: better now than once the model is loaded."""
    if not settings.ssl_certfile:
        return
    try:
        check_certificate(settings.ssl_certfile, settings.ssl_keyfile)
    except OSError as error:
        names = f"SSL_CERTFILE={settings.ssl_certfile}" + (
            f", SSL_KEYFILE={settings.ssl_keyfile}" if settings.ssl_keyfile else ""
        )
        rule = "must be PEM files of a certificate and its private key, which has no password"
        raise BadSetting(f"{names}: {rule}: {error.strerror or error}") from None


def report_memory(
    settings: Settings, report: PreflightReport, loaded_engine: LoadedEngine, metrics: Metrics
) -> None:
    """Print predicted and actual memory now, and again after the first full batch or REPORT_AFTER_STEPS."""
    plan = report.plan
    assert plan is not None
    memory_report = MemoryReport(plan, report.machine, loaded_engine)
    print_terms("memory, ready", memory_report.terms_when_ready(), settings, metrics)

    def on_report(has_all_rows: bool) -> None:
        title = FULL_BATCH_TITLE if has_all_rows else PARTIAL_BATCH_TITLE
        with contextlib.suppress(ServerError):  # the server is about to end
            print_terms(title, memory_report.terms_when_full(), settings, metrics)

    engine = loaded_engine.engine
    engine.set_step_listener(FullBatchWatcher(engine, engine.core.on_step, on_report))


def print_terms(title: str, memory_terms: Sequence[MemoryTerm], settings: Settings, metrics: Metrics) -> None:
    """Print the memory terms, as JSON if JSON_OUTPUT is set, and record them as metrics."""
    print(
        format_memory_json(title, memory_terms)
        if settings.json_output
        else format_memory_table(title, memory_terms),
        flush=True,
    )
    for term in memory_terms:
        metrics.record_memory(term.name, term.predicted, term.actual)


def load_or_explain(settings: Settings, plan: Plan, machine: Machine) -> LoadedEngine | None:
    """Fetch and open the model. Prints the reason and returns None if that is refused."""
    try:
        return load(settings, plan, machine)
    except Refused as error:
        print_findings([error.finding], settings)
    except ServerError as error:
        print(f"hearth: {error.message}", file=sys.stderr)
    return None


def load(settings: Settings, plan: Plan, machine: Machine) -> LoadedEngine:
    """Fetch what is missing and open the model as planned. Raises Refused or ServerError."""
    assert plan.model_size is not None
    budget = enough_memory.plan_budget(plan, machine)
    model = group(
        ModelSettings,
        settings,
        device=plan.device,
        dtype=plan.model_size.dtype,
        layer_devices=plan.layer_devices,
        quantize=plan.quantize,
        num_shard=plan.num_shard,
    )
    engine = group(
        EngineSettings,
        settings,
        context=budget.context,
        kv_memory_bytes=budget.kv_memory_bytes,
        max_batch_total_tokens=settings.max_batch_total_tokens or None,
    )
    return open_engine(fetch_model(settings, plan), model, engine)


def fetch_model(settings: Settings, plan: Plan) -> Path:
    """Fetch the missing files. Returns the model's folder, or the path of its GGUF file. Raises Refused."""
    repository = plan.repository
    progress = Progress(as_json=settings.json_output)
    return fetch(repository, make_hub(settings), progress) / repository.gguf_file


def make_adapter_fetch(settings: Settings) -> FetchAdapter:
    """What fetches an adapter from the Hub, or finds it in the cache if OFFLINE is set."""
    return partial(fetch_adapter, make_hub(settings), offline=settings.offline)


def make_backend(settings: Settings, loaded_engine: LoadedEngine, metrics: Metrics) -> Backend:
    """Start the engine and return the backend that the API serves."""
    return open_backend(
        loaded_engine,
        model_id=public_name(settings.model_name),
        max_input_tokens=settings.max_input_tokens or None,
        special_tokens_in=settings.special_tokens_in,
        tool_format=settings.tool_format,
        default_seed=None if settings.default_seed < 0 else settings.default_seed,
        metrics=metrics,
    )


def public_name(model: str) -> str:
    """The model's name for clients: its name on the Hub, or the last segment of a folder's path."""
    return Path(model).expanduser().resolve().name if model.startswith(("/", ".", "~")) else model


def run_server(
    settings: Settings,
    models: Models,
    metrics: Metrics,
    tuning: TuningService | None,
    version: str,
    model_loader: ModelLoading | None = None,
) -> int:
    """Serve the models, and the metrics on PROMETHEUS_PORT if it is set. Returns the exit code.

    model_loader: of the models that are loaded on demand; None: there is none
    """
    with contextlib.ExitStack() as stack:
        if settings.prometheus_port:
            stack.enter_context(serve_metrics(metrics.render, settings.host, settings.prometheus_port))
        server = server_settings(settings, version)
        store = open_store(
            settings.responses_store, settings.responses_store_mb, settings.responses_store_days
        )
        if store:
            stack.callback(store.close)
        stack.callback(models.close_remote)
        app = create_app(models, server, metrics, store, make_adapter_fetch(settings), tuning, model_loader)
        return serve_http(
            app,
            models,
            host=settings.host,
            port=settings.port,
            drain_seconds=settings.drain_seconds,
            body_limit=make_body_limit(app, server.max_body_bytes, server.root_path),
            refuse_early=make_early_refusal(app, server.root_path),
            check_key=make_key_check(server.api_keys, server.root_path),
            workers=settings.validation_workers,
            certfile=settings.ssl_certfile,
            keyfile=settings.ssl_keyfile,
        )
