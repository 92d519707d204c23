"""What the server did and is doing, for Prometheus: one registry, names that begin with hearth_.

Told of what happens by whoever sees it; asks for the engine's state when read. Knows no engine and no HTTP.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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
    ("prompt_tokens", CounterMetricFamily, "Tokens of prompts"),
    ("cached_tokens", CounterMetricFamily, "Tokens of prompts that were not computed again"),
    ("generated_tokens", CounterMetricFamily, "Tokens of answers"),
    ("preemptions", CounterMetricFamily, "Sequences that lost their row and computed again"),
    ("shortages", CounterMetricFamily, "Steps that found too little memory"),
)


class Metrics:
    """Safe to tell from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self.clock = clock
        self._requests = self._counter("requests", "Requests answered", "dialect", "route", "status")
        self.queue_s = self._histogram("queue_seconds", "From submission to the first row", LONG_S)
        self.first_s = self._histogram("time_to_first_token_seconds", "From submission", LONG_S)
        self.next_s = self._histogram("inter_token_seconds", "Between two tokens of an answer", SHORT_S)
        self.whole_s = self._histogram("answer_seconds", "From submission to the end", LONG_S)

    def answered(self, dialect: str, route: str, status: int) -> None:
        """A request got its response; `route` is the rule, not the path, so that the series stay few."""
        self._requests.labels(dialect, route, str(status)).inc()

    def watch(self, stats: Callable[[], "Stats"]) -> None:
        """Ask `stats` for an engine's state whenever the figures are read."""
        self.registry.register(State(stats))

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
    """How long one answer takes, from its submission to its end. Used by one thread at a time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._submitted = metrics.clock()
        self._last: float | None = None

    def started(self, waited_s: float) -> None:
        """It has had to wait so long for a row."""
        self._metrics.queue_s.observe(waited_s)

    def token(self) -> None:
        now = self._metrics.clock()
        if self._last is None:
            self._metrics.first_s.observe(now - self._submitted)
        else:
            self._metrics.next_s.observe(now - self._last)
        self._last = now

    def finished(self) -> None:
        self._metrics.whole_s.observe(self._metrics.clock() - self._submitted)


class Stats(Protocol):
    """An engine's state: the attributes that STATE names, and the answers that ended, by reason."""

    @property
    def ends(self) -> Mapping[str, int]: ...


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
