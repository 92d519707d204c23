"""The actions of main.py for a model that this process loads itself: check, download, self-test, load.

Imports nothing of the API: startup/serve_one.py does, while the model is loaded.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from checks.preflight import PreflightReport, preflight, with_speed
from checks.report import print_findings, print_report
from hub.resolve import PendingRepository
from inference.factory import LoadedEngine
from inference.finding import Refused
from inference.metrics import Metrics
from inference.models import ModelEntry
from inference.process.background import run_in_background
from selftest import selftest
from selftest.memory_report import MemoryReport
from selftest.report import format_selftest_json, format_selftest_table
from settings.device_defaults import fill_defaults
from settings.schema import Settings
from startup.engine import fetch_model, load_or_explain
from startup.freeze_gc import freeze_gc
from startup.remote import open_remote_models
from startup.tls import check_tls


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


@dataclass(frozen=True, slots=True)
class Loading:
    """A model that passed the checks and is being loaded.

    settings        with the defaults of the model's device
    remote_entries  the models on other servers
    engine          waits for the loaded engine; None if loading was refused, which it has explained
    """

    settings: Settings
    report: PreflightReport
    metrics: Metrics
    remote_entries: Sequence[ModelEntry]
    engine: Callable[[], LoadedEngine | None]


def start_loading(settings: Settings, pending: PendingRepository) -> Loading | None:
    """Check the model, fetch it, and load it in the background. Raises BadSetting.

    Prints the findings, and returns None if one is a refusal.
    """
    check_tls(settings)
    report = preflight(settings, pending)
    print_findings(report.findings, settings, report.suggestions, report.files_to_fetch)
    if not report.ok or report.plan is None:
        return None
    settings = fill_defaults(settings, report.plan.device)
    metrics = Metrics()
    if (remote_entries := open_remote_models(settings, metrics)) is None:
        return None
    engine = run_in_background(partial(load_or_explain, settings, report.plan, report.machine), "load")
    return Loading(settings, report, metrics, remote_entries, engine)
