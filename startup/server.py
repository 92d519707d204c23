"""Serves models over HTTP: app, store, metrics' port, TLS."""

import contextlib
from dataclasses import replace
from functools import partial

from flask import Flask

from api import create_app
from api.adapters import FetchAdapter
from api.batches.service import Batches, open_batches
from api.hooks.api_keys import make_key_check
from api.hooks.body_limits import make_body_limit
from api.hooks.concurrency_limit import make_permit_reservation
from api.server.app_request_runner import AppRequestRunner
from api.server.early_checks import EarlyChecks
from api.server.metrics_port import serve_metrics
from api.server.serve import HttpServer
from api.server.serve import serve as serve_http
from api.services import Services
from api.store.store import open_store
from hub.fetch_adapter import fetch_adapter
from hub.resolve import make_hub
from inference.metrics import Metrics
from inference.models import Models
from inference.process.imports.remembered_code import remembered_code
from settings.groups import HttpSettings, ServerSettings, group, server_settings
from settings.schema import Settings

BATCH_SHARE = 2  # one in so many sequences may be of batches: other requests find the rest free


def run_server(
    settings: Settings,
    models: Models,
    metrics: Metrics,
    version: str,
    services: Services,
    *,
    has_link: bool = False,
) -> int:
    """Serve the models, and the metrics on PROMETHEUS_PORT if it is set. Returns the exit code.

    services  without a store, batches and a fetch of adapters, which the settings decide
    has_link  serve the parent of this process too, see api/link.py
    """
    with contextlib.ExitStack() as stack:
        if settings.prometheus_port:
            stack.enter_context(serve_metrics(metrics.render, settings.host, settings.prometheus_port))
        server = server_settings(settings, version, has_link=has_link)
        store = open_store(
            settings.responses_store, settings.responses_store_mb, settings.responses_store_days
        )
        if store:
            stack.callback(store.close)
        stack.callback(models.close_remote)
        num_slots = max(1, settings.max_sequences // BATCH_SHARE)
        batches = open_batches(services.tuning, models, server.max_body_bytes, num_slots)
        if batches:
            metrics.registry.register(batches.metrics)
            stack.callback(batches.close)
        fetch_adapter = make_adapter_fetch(settings)
        services = replace(services, store=store, batches=batches, fetch_adapter=fetch_adapter)
        app = create_app(models, server, metrics, services)
        checks = make_early_checks(app, server)
        remembered_code().save()  # everything that serving needs is imported
        http = group(HttpSettings, settings)
        if batches is None:
            return serve_http(app, models, checks, http)
        return serve_http(app, models, checks, http, partial(start_batches, batches, app), batches.stop)


def start_batches(batches: Batches, app: Flask, server: HttpServer) -> None:
    """Run the requests of batches on the server, which accepts connections."""
    batches.start(AppRequestRunner(app, server.loop))


def make_early_checks(app: Flask, settings: ServerSettings) -> EarlyChecks:
    return EarlyChecks(
        make_body_limit(app, settings.max_body_bytes, settings.root_path),
        make_permit_reservation(app, settings.root_path),
        make_key_check(settings.api_keys, settings.root_path),
    )


def make_adapter_fetch(settings: Settings) -> FetchAdapter:
    """What fetches an adapter from the Hub, or finds it in the cache if OFFLINE is set."""
    return partial(fetch_adapter, make_hub(settings), offline=settings.offline)
