"""The server's own names, which begin with hearth_."""

from collections.abc import Callable, Iterable

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.metrics.span import WHOLE, Span
from inference.metrics.state import Stats

SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

# An attribute of the engine's state, the kind of metric it becomes, and its help.
STATE = (
    ("running", GaugeMetricFamily, "Sequences that hold a row"),
    ("waiting", GaugeMetricFamily, "Sequences that wait for a row"),
    ("waiting_tokens", GaugeMetricFamily, "Tokens of the sequences that wait"),
    ("errands", GaugeMetricFamily, "Embeddings and searches under way or waiting"),
    ("room", GaugeMetricFamily, "Tokens the key-value memory can hold"),
    ("held", GaugeMetricFamily, "Tokens that running sequences have in it"),
    ("steps", CounterMetricFamily, "Forward passes"),
    ("step_seconds", CounterMetricFamily, "Time spent in forward passes"),
    ("prompt_tokens", CounterMetricFamily, "Tokens of prompts"),
    ("cached_tokens", CounterMetricFamily, "Tokens of prompts that were not computed again"),
    ("generated_tokens", CounterMetricFamily, "Tokens of answers"),
    ("drafted_tokens", CounterMetricFamily, "Tokens of answers that were guessed ahead"),
    ("accepted_tokens", CounterMetricFamily, "Of these, the ones that were right"),
    ("preemptions", CounterMetricFamily, "Sequences that lost their row and computed again"),
    ("shortages", CounterMetricFamily, "Steps that found too little memory"),
)


class Hearth:
    """A Listener (see span.py)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        labels = ("dialect", "route", "status")
        self._requests = Counter("hearth_requests", "Requests answered", labels, registry=registry)
        self._queue = self._histogram("queue_seconds", "From submission to the first row", LONG_S)
        self._first = self._histogram("time_to_first_token_seconds", "From submission", LONG_S)
        self._next = self._histogram("inter_token_seconds", "Between two tokens of an answer", SHORT_S)
        self._whole = self._histogram("answer_seconds", "From submission to the end", LONG_S)
        self._predicted = self._memory("predicted", "Memory that was expected before the start, by term")
        self._actual = self._memory("actual", "The same as it came, when it was last compared")

    def watch(self, stats: Callable[[], Stats]) -> None:
        self._registry.register(State(stats))

    def answered(self, dialect: str, route: str, status: int) -> None:
        self._requests.labels(dialect, route, str(status)).inc()

    def started(self, span: Span) -> None:
        self._queue.observe(span.waited_s)

    def gained(self, span: Span, seconds: float) -> None:
        (self._first if span.tokens == 1 else self._next).observe(seconds)

    def finished(self, span: Span, reason: str) -> None:
        if reason in WHOLE:
            self._whole.observe(span.whole_s)

    def remembered(self, term: str, predicted: int, actual: int) -> None:
        self._predicted.labels(term).set(predicted)
        self._actual.labels(term).set(actual)

    def _memory(self, name: str, help: str) -> Gauge:
        return Gauge(f"hearth_memory_{name}_bytes", help, ("term",), registry=self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"hearth_{name}", help, buckets=buckets, registry=self._registry)


class State:
    """Reads an engine's state and the process's memory when Prometheus asks."""

    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats
        self._process = psutil.Process()

    def collect(self) -> Iterable[Metric]:
        resident = self._process.memory_info().rss
        yield GaugeMetricFamily("hearth_resident_bytes", "Memory of this process", resident)
        stats = self._stats()
        for attribute, family, help in STATE:
            yield family(f"hearth_{attribute}", help, getattr(stats, attribute))
        answers = CounterMetricFamily("hearth_answers", "Answers that ended", labels=("reason",))
        for reason, count in stats.ends.items():
            answers.add_metric((reason,), count)
        yield answers
