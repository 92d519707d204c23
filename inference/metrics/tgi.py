"""The metrics of Text Generation Inference, named tgi_*, for its dashboards.

Names and buckets: TGI 3, router/src/server.rs. TGI's counters have no suffix "_total". Requests are HTTP
requests to the generating routes of all dialects; histograms count answers. A step that computes a prompt is
a "prefill", any other step a "decode".
"""

from collections.abc import Callable, Iterator
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from inference.engine_stats import Stats, StepStats
from inference.metrics.request_stats import (
    COMPLETE_REASONS,
    CONTEXT_BUCKETS,
    AnswerStats,
    Buckets,
    HistogramSpec,
)

SECONDS: Buckets = tuple(0.0001 * 1.5**power for power in range(1, 36))
SIZES: Buckets = tuple(range(1, 1025))

# Generating routes end with one of these; COMPATIBLE is TGI's compatibility route as (dialect, route).
GENERATING = (
    "completion",
    "completions",
    "generate",
    "generate_stream",
    "vertex",
    "invocations",
    "responses",
)
COMPATIBLE = ("tgi", "/")
FAILURES = {499: "dropped", 429: "overloaded", 503: "overloaded", 424: "generation"}
ERRORS = ("validation", "overloaded", "generation", "dropped")
METHODS = ("prefill", "decode")


def first_step_to_end_s(answer_stats: AnswerStats) -> float:
    return answer_stats.total_s - answer_stats.queue_time_s


def inference_s_per_token(answer_stats: AnswerStats) -> float:
    return first_step_to_end_s(answer_stats) / max(1, answer_stats.num_tokens)


ANSWER_HISTOGRAMS = (
    HistogramSpec(
        "duration",
        "Seconds from arrival to the end of an answer",
        SECONDS,
        lambda s: s.request.prepared_s + s.total_s,
    ),
    HistogramSpec(
        "validation_duration",
        "Seconds for validation and tokenization",
        SECONDS,
        attrgetter("request.prepared_s"),
    ),
    HistogramSpec(
        "queue_duration", "Seconds from submission to the first step", SECONDS, attrgetter("queue_time_s")
    ),
    HistogramSpec(
        "inference_duration",
        "Seconds from the first step to the end of an answer",
        SECONDS,
        first_step_to_end_s,
    ),
    HistogramSpec(
        "mean_time_per_token_duration",
        "Seconds of inference per generated token",
        SECONDS,
        inference_s_per_token,
    ),
    HistogramSpec("generated_tokens", "Generated tokens", CONTEXT_BUCKETS, attrgetter("num_tokens")),
    HistogramSpec("input_length", "Prompt tokens", CONTEXT_BUCKETS, attrgetter("request.prompt_tokens")),
    HistogramSpec(
        "max_new_tokens",
        "Most tokens that an answer may have",
        CONTEXT_BUCKETS,
        attrgetter("request.max_tokens"),
    ),
)
ENGINE_GAUGES = (
    ("tgi_queue_size", "Waiting answers", "waiting"),
    ("tgi_batch_current_size", "Running answers", "running"),
    ("tgi_batch_current_max_tokens", "Tokens that running answers may grow to", "kv_reserved"),
    ("tgi_batch_max_total_tokens", "Tokens that the KV cache can hold", "kv_capacity"),
)


class TgiMetrics:
    """An AnswerListener. Counts the answers and steps of all models.

    The context of the first model is the last bucket of histograms of lengths.
    """

    def __init__(self, registry: CollectorRegistry, context: int) -> None:
        lengths = tuple(context / 100 * percent for percent in range(1, 101))
        self._suffixless_registry = CollectorRegistry()
        self._count = self._counter("request_count", "Requests to generating routes")
        self._success = self._counter("request_success", "Requests with status 200")
        self._failure = self._counter("request_failure", "Failed requests by kind of error", err=ERRORS)
        self._steps = self._counter("batch_inference_count", "Steps of the model", method=METHODS)
        self._succeeded = self._counter("batch_inference_success", "Steps that succeeded", method=METHODS)
        self._failed = self._counter(
            "batch_inference_failure", "Steps that ran out of memory", method=METHODS
        )
        self._histograms = {
            spec: Histogram(
                f"tgi_request_{spec.name}",
                spec.help,
                buckets=spec.buckets or lengths,
                registry=registry,
            )
            for spec in ANSWER_HISTOGRAMS
        }
        self._next_batch_size = Histogram(
            "tgi_batch_next_size", "Answers that join the batch in a step", buckets=SIZES, registry=registry
        )
        self._step_duration = Histogram(
            "tgi_batch_inference_duration",
            "Seconds of a step",
            ("method",),
            buckets=SECONDS,
            registry=registry,
        )
        self._collector = TgiCollector()
        registry.register(self._collector)

    def observe_engine(self, stats: Callable[[], Stats]) -> None:
        self._collector.engines.append(stats)

    def record_response(self, dialect: str, route: str, status: int) -> None:
        if not route.endswith(GENERATING) and (dialect, route) != COMPATIBLE:
            return
        self._count.inc()
        if status == 200:
            self._success.inc()
        else:
            error = FAILURES.get(status, "validation" if status < 500 else "generation")
            self._failure.labels(error).inc()

    def render_counters(self) -> bytes:
        """The counters in Prometheus' text format, without the suffix "_total" that the library adds."""
        return generate_latest(self._suffixless_registry).replace(b"_total", b"")

    def record_step(self, step_stats: StepStats) -> None:
        method = METHODS[0 if step_stats.has_prompt else 1]
        self._steps.labels(method).inc()
        (self._failed if step_stats.failed else self._succeeded).labels(method).inc()
        self._step_duration.labels(method).observe(step_stats.seconds)
        if step_stats.num_newly_scheduled:
            self._next_batch_size.observe(step_stats.num_newly_scheduled)

    def on_started(self, answer_stats: AnswerStats) -> None:
        """Does nothing: TGI's metrics record an answer at its end."""

    def on_first_token(self, seconds: float) -> None:
        """Does nothing: TGI's metrics record an answer at its end."""

    def on_finished(self, answer_stats: AnswerStats, reason: str) -> None:
        if reason in COMPLETE_REASONS:
            for spec, histogram in self._histograms.items():
                histogram.observe(spec.read(answer_stats))

    def _counter(self, name: str, help: str, **labels: tuple[str, ...]) -> Counter:
        counter = Counter(f"tgi_{name}", help, tuple(labels), registry=self._suffixless_registry)
        for value in (value for values in labels.values() for value in values):
            counter.labels(value)
        return counter


class TgiCollector:
    """Adds up the state of all engines at every scrape."""

    def __init__(self) -> None:
        self.engines: list[Callable[[], Stats]] = []

    def collect(self) -> Iterator[Metric]:
        snapshots = [stats() for stats in self.engines]
        for name, help, attribute in ENGINE_GAUGES:
            yield GaugeMetricFamily(name, help, sum(getattr(each, attribute) for each in snapshots))
