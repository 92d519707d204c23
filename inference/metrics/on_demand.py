"""The metrics of models that are loaded on demand: hearth_model_*."""

from collections.abc import Callable
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from inference.backend_info import ModelStatus


class OnDemandMetrics:
    """The series of all models that are loaded on demand, by their names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._loaded = Gauge(
            "hearth_model_loaded", "Whether the model takes requests", ("model",), registry=registry
        )
        self._status = Gauge(
            "hearth_model_status", "1 for the model's status", ("model", "status"), registry=registry
        )
        self._loads = Counter(
            "hearth_model_loads", "Loads by outcome", ("model", "outcome"), registry=registry
        )
        self._load_seconds = Gauge(
            "hearth_model_load_seconds", "Seconds of the latest load", ("model",), registry=registry
        )
        self._sleeps = Counter(
            "hearth_model_sleeps", "How often the model was put to sleep", ("model",), registry=registry
        )
        self._wake_seconds = Gauge(
            "hearth_model_wake_seconds", "Seconds until the model last woke", ("model",), registry=registry
        )
        self._unloads = Counter(
            "hearth_model_unloads", "Unloads by reason", ("model", "reason"), registry=registry
        )

    def follow(self, model: str, status_of: Callable[[], ModelStatus]) -> None:
        """Report the model's status whenever the metrics are read."""
        for status in get_args(ModelStatus):
            self._status.labels(model, status).set_function(partial(is_status, status_of, status))

    def record_load(self, model: str, seconds: float | None) -> None:
        """Count a load. seconds: None if it failed."""
        self._loads.labels(model, "failed" if seconds is None else "ok").inc()
        if seconds is not None:
            self._load_seconds.labels(model).set(seconds)
            self._loaded.labels(model).set(1)

    def record_sleep(self, model: str) -> None:
        self._loaded.labels(model).set(0)
        self._sleeps.labels(model).inc()

    def record_wake(self, model: str, seconds: float) -> None:
        self._loaded.labels(model).set(1)
        self._wake_seconds.labels(model).set(seconds)

    def record_unload(self, model: str, reason: str) -> None:
        """Count an unload. reason: "idle", "memory", "request" or "crash"."""
        self._loaded.labels(model).set(0)
        self._unloads.labels(model, reason).inc()

    def forget(self, model: str) -> None:
        """Drop the series of a model that is served no more."""
        series = (self._loaded, self._status, self._loads, self._load_seconds, self._unloads)
        for metric in (*series, self._sleeps, self._wake_seconds):
            metric.remove_by_labels({"model": model})


def is_status(status_of: Callable[[], ModelStatus], status: ModelStatus) -> float:
    return float(status_of() == status)
