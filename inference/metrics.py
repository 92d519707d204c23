"""What the server did and is doing, for Prometheus: one registry, names that begin with hearth_.

Told of what happens by whoever sees it; asks for the engine's state when read. Knows no engine and no HTTP.
"""

import time
from collections.abc import Callable, Iterable

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.types import FinishReason

SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


# An attribute of the engine's state, the kind of metric it becomes, and its help.
STATE = (
    ("running", GaugeMetricFamily, "Sequences that hold a row"),
    ("waiting", GaugeMetricFamily, "Sequences that wait for a row"),
    ("waiting_tokens", GaugeMetricFamily, "Tokens of the sequences that wait"),
    ("rows", GaugeMetricFamily, "Rows of the key-value memory"),
    ("columns", GaugeMetricFamily, "Columns of the key-value memory, in tokens"),
    ("steps", CounterMetricFamily, "Forward passes"),
    ("step_seconds", CounterMetricFamily, "Time spent in forward passes"),
    ("preemptions", CounterMetricFamily, "Sequences that lost their row and computed again"),
    ("shortages", CounterMetricFamily, "Steps that found too little memory"),
)


class Metrics:
    """Safe to tell from any thread.

    stats   the engine's state now, with the attributes that STATE names; None where there is no engine
    """

    def __init__(
        self, stats: Callable[[], object | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(State(stats))
        self.clock = clock
        self._requests = self._counter("requests", "Requests answered", "dialect", "route", "status")
        self.answers = self._counter("answers", "Answers finished", "reason")
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts")
        self.cached_tokens = self._counter("cached_tokens", "Tokens of prompts that were not computed again")
        self.generated_tokens = self._counter("generated_tokens", "Tokens of answers")
        self.queue_s = self._histogram("queue_seconds", "From submission to the first row", LONG_S)
        self.first_s = self._histogram("time_to_first_token_seconds", "From submission", LONG_S)
        self.next_s = self._histogram("inter_token_seconds", "Between two tokens of an answer", SHORT_S)
        self.whole_s = self._histogram("answer_seconds", "From submission to the end", LONG_S)

    def answered(self, dialect: str, route: str, status: int) -> None:
        """A request got its response; `route` is the rule, not the path, so that the series stay few."""
        self._requests.labels(dialect, route, str(status)).inc()

    def submitted(self) -> "Span":
        """An answer is wanted: tell the span how it goes on."""
        return Span(self)

    def render(self) -> bytes:
        """The text format of Prometheus, version 0.0.4."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"hearth_{name}", help, labels, registry=self.registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"hearth_{name}", help, buckets=buckets, registry=self.registry)


class Span:
    """One answer, from its submission to its end. Used by one thread at a time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._submitted = metrics.clock()
        self._last: float | None = None

    def admitted(self) -> None:
        """It got a row."""
        self._metrics.queue_s.observe(self._metrics.clock() - self._submitted)

    def started(self, prompt_tokens: int, cached_tokens: int) -> None:
        """Its prompt is computed."""
        self._metrics.prompt_tokens.inc(prompt_tokens)
        self._metrics.cached_tokens.inc(cached_tokens)

    def token(self) -> None:
        now = self._metrics.clock()
        self._metrics.generated_tokens.inc()
        if self._last is None:
            self._metrics.first_s.observe(now - self._submitted)
        else:
            self._metrics.next_s.observe(now - self._last)
        self._last = now

    def finished(self, reason: FinishReason) -> None:
        self._metrics.answers.labels(reason).inc()
        self._metrics.whole_s.observe(self._metrics.clock() - self._submitted)


class State:
    """Reads the engine's state and the process's memory when Prometheus asks."""

    def __init__(self, stats: Callable[[], object | None]) -> None:
        self._stats = stats
        self._process = psutil.Process()

    def collect(self) -> Iterable[Metric]:
        resident = self._process.memory_info().rss
        yield GaugeMetricFamily("hearth_resident_bytes", "Memory of this process", resident)
        stats = self._stats()
        for attribute, family, help in STATE if stats is not None else ():
            yield family(f"hearth_{attribute}", help, getattr(stats, attribute))
