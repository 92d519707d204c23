"""The start of a server that loads no model itself: they are on other servers or in other processes."""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from api.services import Services
from checks.machine.limits import raise_open_file_limit
from checks.preflight import with_speed
from checks.report import format_json, format_table, print_findings
from inference.metrics import Metrics
from inference.models import ModelEntry
from inference.on_demand.loader import ModelLoader
from settings.device_defaults import fill_defaults
from settings.schema import Settings
from settings.sources import settings_of_model
from startup.freeze_gc import freeze_gc
from startup.on_demand import check_models, find_models, open_loader
from startup.one_model import download, run_selftest
from startup.remote import check_remote, join_models, open_remote_models
from startup.server import run_server
from startup.tls import check_tls


def check_several(settings: Settings, *, as_json: bool) -> int:
    """Print what can be known before the start. Returns 0 if all models would be served, else 1."""
    check_tls(settings)
    checked = check_models(settings)
    findings = [*check_remote(settings), *checked.findings]
    reports = {name: with_speed(report) for name, report in checked.reports.items()}
    speeds = {name: report.speed for name, report in reports.items() if report.speed}
    if as_json:
        print(format_json(findings, speed={name: speed.to_json() for name, speed in speeds.items()}))
    else:
        print(format_table(findings))
        for name, speed in speeds.items():
            print("", f"{name}:", *speed.describe(), sep="\n")
    return 0 if all(finding.ok for finding in findings) else 1


def download_several(settings: Settings) -> int:
    """Fetch the models of this machine, and print their folders. Returns 0 if all are complete."""
    return max((download(own, pending) for _, own, pending in find_models(settings, refresh=True)), default=0)


def selftest_several(settings: Settings, *, as_json: bool) -> int:
    """Run the self-test of each model of this machine. Returns 0 if all pass."""
    return max(
        (run_selftest(own, pending, as_json=as_json) for _, own, pending in find_models(settings)), default=0
    )


def serve_several(settings: Settings, version: str) -> int:
    """Serve until a signal. Returns the exit code. Raises BadSetting."""
    check_tls(settings)
    settings, metrics = fill_defaults(settings, "cpu"), Metrics()
    checked = check_models(settings)
    if checked.models:
        print_findings(checked.findings, settings)
    if not checked.ok or (remote_entries := open_remote_models(settings, metrics)) is None:
        return 1
    raise_open_file_limit()
    with contextlib.ExitStack() as stack:
        loader: ModelLoader | None = None
        local_entries: list[ModelEntry] = []
        if checked.models:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hearth-")))
            loader, local_entries = open_loader(settings, checked, folder, metrics)
            stack.callback(loader.close)
        models = join_models(settings, remote_entries, local_entries)
        freeze_gc()
        items = [
            item for model in checked.models for item in settings_of_model(settings, model).lora_adapters
        ]
        settings = replace(settings, lora_adapters=tuple(items))
        return run_server(settings, models, metrics, version, Services(model_loader=loader))
