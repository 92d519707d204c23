"""The server's own metrics, named hearth_*."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.engine_stats import Stats
from inference.metrics.inter_token_times import InterTokenTimes
from inference.metrics.request_stats import COMPLETE_REASONS, AnswerStats

SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

# (attribute of Stats, metric family, help)
ENGINE_METRICS = (
    ("running", GaugeMetricFamily, "Running sequences"),
    ("waiting", GaugeMetricFamily, "Waiting sequences"),
    ("waiting_tokens", GaugeMetricFamily, "Prompt tokens of sequences that have not started"),
    ("background_tasks", GaugeMetricFamily, "Contrastive searches, running or waiting"),
    ("kv_capacity", GaugeMetricFamily, "Tokens that the KV cache can hold"),
    ("kv_used", GaugeMetricFamily, "Tokens of the KV cache that running sequences use"),
    ("steps", CounterMetricFamily, "Steps of the model"),
    ("step_seconds", CounterMetricFamily, "Seconds spent in steps of the model"),
    ("prompt_tokens", CounterMetricFamily, "Prompt tokens of sequences that have started"),
    ("cached_tokens", CounterMetricFamily, "Prompt tokens from the prefix cache"),
    ("generated_tokens", CounterMetricFamily, "Generated tokens"),
    ("drafted_tokens", CounterMetricFamily, "Draft tokens computed"),
    ("accepted_tokens", CounterMetricFamily, "Draft tokens accepted"),
    ("preemptions", CounterMetricFamily, "Sequences that lost their KV memory and were computed again"),
    ("oom_steps", CounterMetricFamily, "Steps that ran out of memory"),
)


class HearthMetrics:
    """An AnswerListener. Counts the answers of all models."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._inter_token_collector = InterTokenCollector()
        registry.register(self._inter_token_collector)
        self._engine_collector = EngineCollector()  # registered with the first engine
        labels = ("dialect", "route", "status")
        self._requests = Counter(
            "hearth_requests", "HTTP responses by dialect, route and status", labels, registry=registry
        )
        self._queue = self._histogram("queue_seconds", "Seconds from submission to the first step", LONG_S)
        self._time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Seconds from submission to the first token", LONG_S
        )
        self._total = self._histogram(
            "answer_seconds", "Seconds from submission to the end of an answer", LONG_S
        )
        self._refusal = self._histogram(
            "refusal_seconds", "Seconds from a request's last byte to its refusal by a full server", SHORT_S
        )
        self._predicted = self._memory_gauge(
            "predicted", "Memory that the plan predicted before the start, by term"
        )
        self._actual = self._memory_gauge(
            "actual", "Memory measured at the last comparison with the plan, by term"
        )

    def observe_engine(self, stats: Callable[[], Stats], inter_token_times: InterTokenTimes) -> None:
        self._inter_token_collector.models.append(inter_token_times)
        self._engine_collector.engines.append(stats)
        if len(self._engine_collector.engines) == 1:
            self._registry.register(self._engine_collector)

    def record_response(self, dialect: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(dialect, route, str(status)).inc()
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            self._refusal.observe(seconds)

    def on_started(self, answer_stats: AnswerStats) -> None:
        self._queue.observe(answer_stats.queue_time_s)

    def on_first_token(self, seconds: float) -> None:
        self._time_to_first_token.observe(seconds)

    def on_finished(self, answer_stats: AnswerStats, reason: str) -> None:
        if reason in COMPLETE_REASONS:
            self._total.observe(answer_stats.total_s)

    def record_memory(self, term: str, predicted: int, actual: int) -> None:
        self._predicted.labels(term).set(predicted)
        self._actual.labels(term).set(actual)

    def _memory_gauge(self, name: str, help: str) -> Gauge:
        return Gauge(f"hearth_memory_{name}_bytes", help, ("term",), registry=self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"hearth_{name}", help, buckets=buckets, registry=self._registry)


class InterTokenCollector:
    """Adds up the times of all models at every scrape."""

    def __init__(self) -> None:
        self.models: list[InterTokenTimes] = []

    def collect(self) -> Iterable[Metric]:
        total = InterTokenTimes(*SHORT_S)
        for inter_token_times in self.models:
            total.add(inter_token_times)
        yield total.histogram(
            "hearth_inter_token_seconds", "Seconds between two tokens of an answer", SHORT_S
        )


class EngineCollector:
    """Reads the memory of the process and adds up the state of all engines at every scrape."""

    def __init__(self) -> None:
        self.engines: list[Callable[[], Stats]] = []
        self._process = psutil.Process()

    def collect(self) -> Iterable[Metric]:
        rss = self._process.memory_info().rss
        yield GaugeMetricFamily("hearth_resident_bytes", "Resident memory of this process", rss)
        snapshots = [stats() for stats in self.engines]
        for attribute, family, help in ENGINE_METRICS:
            yield family(f"hearth_{attribute}", help, sum(getattr(each, attribute) for each in snapshots))
        finished_answers = CounterMetricFamily(
            "hearth_answers", "Ended answers by reason", labels=("reason",)
        )
        for reason in snapshots[0].finished_by_reason:
            count = sum(each.finished_by_reason.get(reason, 0) for each in snapshots)
            finished_answers.add_metric((reason,), count)
        yield finished_answers
