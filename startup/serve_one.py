"""Serves the model that this process loads itself. The API is imported here, while the model is loaded."""

import contextlib
import sys
from collections.abc import Sequence

from api.adapters import load_adapters
from api.services import Services
from checks.machine.limits import raise_open_file_limit
from checks.preflight import PreflightReport
from inference.errors import ServerError
from inference.factory import LoadedEngine
from inference.metrics import Metrics
from inference.models import ModelEntry
from selftest.full_batch import REPORT_AFTER_STEPS, FullBatchWatcher
from selftest.memory_report import MemoryReport, MemoryTerm
from selftest.report import format_memory_json, format_memory_table
from settings.schema import Settings
from startup.engine import make_backend
from startup.freeze_gc import freeze_gc
from startup.one_model import Loading
from startup.remote import join_models
from startup.server import make_adapter_fetch, run_server
from startup.tuning import open_tuning

# Titles of the second memory report; the first, "memory, ready", is printed when the model is ready.
FULL_BATCH_TITLE, PARTIAL_BATCH_TITLE = "memory, first full batch", f"memory, {REPORT_AFTER_STEPS} steps"


def serve(loading: Loading, version: str, *, is_child: bool = False) -> int:
    """Serve until a signal, once the model is loaded. Returns the exit code.

    is_child: for the server that started this process, over the link
    """
    settings, report, metrics = loading.settings, loading.report, loading.metrics
    assert report.plan is not None
    loaded_engine = loading.engine()
    if loaded_engine is None:
        return 1
    raise_open_file_limit()
    backend = make_backend(settings, loaded_engine, metrics)
    names = (backend.info().id, *settings.served_names)
    own_entry = ModelEntry(backend, names, unlisted=(settings.model_name,))
    models = join_models(settings, loading.remote_entries, [own_entry])
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
        return run_server(
            settings,
            models,
            metrics,
            version,
            Services(tuning=tuning, model_loader=loader, sleeper=loaded_engine.make_sleep_mode()),
            has_link=is_child,
        )


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
