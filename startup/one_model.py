"""The actions of main.py for a model that this process loads itself: check, download, self-test, serve."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from api.adapters import load_adapters
from checks.machine.limits import raise_open_file_limit
from checks.preflight import PreflightReport, preflight, print_findings, print_report, with_speed
from hub.resolve import PendingRepository
from inference.errors import ServerError
from inference.factory import LoadedEngine
from inference.finding import Refused
from inference.freeze_gc import freeze_gc
from inference.metrics import Metrics
from inference.models import ModelEntry
from selftest import selftest
from selftest.full_batch import REPORT_AFTER_STEPS, FullBatchWatcher
from selftest.memory_report import MemoryReport, MemoryTerm
from selftest.report import (
    format_memory_json,
    format_memory_table,
    format_selftest_json,
    format_selftest_table,
)
from settings.device_defaults import fill_defaults
from settings.schema import Settings
from startup.engine import fetch_model, load_or_explain, make_backend
from startup.remote import join_models, open_remote_models
from startup.server import check_tls, make_adapter_fetch, run_server
from startup.tuning import open_tuning

# Titles of the second memory report; the first, "memory, ready", is printed when the model is ready.
FULL_BATCH_TITLE, PARTIAL_BATCH_TITLE = "memory, first full batch", f"memory, {REPORT_AFTER_STEPS} steps"


def check(settings: Settings, pending: PendingRepository, *, as_json: bool) -> int:
    """Print the preflight report. Returns 0 if the model would be served, else 1. Raises BadSetting."""
    check_tls(settings)
    report = with_speed(preflight(settings, pending))
    print_report(report, as_json=as_json)
    return 0 if report.ok else 1


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


def serve(settings: Settings, pending: PendingRepository, version: str, *, is_child: bool = False) -> int:
    """Check, fetch, load, and serve until a signal. Returns the exit code. Raises BadSetting.

    is_child: for the server that started this process, over the link
    """
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
        sleeper = loaded_engine.make_sleep_mode()
        return run_server(settings, models, metrics, tuning, version, loader, sleeper, has_link=is_child)


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
