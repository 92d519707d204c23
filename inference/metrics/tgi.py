"""The names of Text Generation Inference's metrics, which begin with tgi_, as its dashboards read them.

Names and buckets: TGI 3, router/src/server.rs. Its counters have no suffix. Requests are HTTP's, of every
dialect's routes that generate; histograms are of answers. A step that computes a prompt is a "prefill", any
other a "decode".
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from inference.metrics.figure import LENGTHS, Buckets, Figure
from inference.metrics.span import WHOLE, Span
from inference.metrics.state import Stats, Step

SECONDS: Buckets = tuple(0.0001 * 1.5**power for power in range(1, 36))
SIZES: Buckets = tuple(range(1, 1025))

# What the routes that generate end with; and one that is too short for that.
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


def inference_s(span: Span) -> float:
    return span.whole_s - span.waited_s


def mean_s(span: Span) -> float:
    return inference_s(span) / max(1, span.tokens)


OF_ANSWERS = (
    Figure("duration", "From arrival to the end", SECONDS, lambda s: s.asked.prepared_s + s.whole_s),
    Figure("validation_duration", "Checking and tokenising", SECONDS, lambda s: s.asked.prepared_s),
    Figure("queue_duration", "From submission to the first step", SECONDS, lambda s: s.waited_s),
    Figure("inference_duration", "From the first step to the end", SECONDS, inference_s),
    Figure("mean_time_per_token_duration", "Of inference", SECONDS, mean_s),
    Figure("generated_tokens", "Generated tokens", LENGTHS, lambda s: s.tokens),
    Figure("input_length", "Prompt tokens", LENGTHS, lambda s: s.asked.prompt_tokens),
    Figure("max_new_tokens", "The most tokens allowed", LENGTHS, lambda s: s.asked.max_tokens),
)
STATE = (
    ("tgi_queue_size", "Answers that wait for a row", "waiting"),
    ("tgi_batch_current_size", "Answers in a row", "running"),
    ("tgi_batch_current_max_tokens", "Tokens that these may come to hold", "reach"),
    ("tgi_batch_max_total_tokens", "Tokens the memory can hold", "room"),
)


class Tgi:
    """A Listener (see span.py)."""

    def __init__(self, registry: CollectorRegistry, stats: Callable[[], Stats], *, context: int) -> None:
        lengths = tuple(context / 100 * part for part in range(1, 101))
        self._plain = CollectorRegistry()
        self._count = self._counter("request_count", "Requests")
        self._success = self._counter("request_success", "Requests that were answered")
        self._failure = self._counter("request_failure", "Requests that failed", err=ERRORS)
        self._steps = self._counter("batch_inference_count", "Steps", method=METHODS)
        self._done = self._counter("batch_inference_success", "Steps that went well", method=METHODS)
        self._failed = self._counter("batch_inference_failure", "Steps without memory", method=METHODS)
        self._of_answers = {
            figure: Histogram(
                f"tgi_request_{figure.name}",
                figure.help,
                buckets=figure.buckets or lengths,
                registry=registry,
            )
            for figure in OF_ANSWERS
        }
        self._joined = Histogram("tgi_batch_next_size", "Answers that join", buckets=SIZES, registry=registry)
        self._step = Histogram(
            "tgi_batch_inference_duration", "A step", ("method",), buckets=SECONDS, registry=registry
        )
        registry.register(State(stats))

    def answered(self, dialect: str, route: str, status: int) -> None:
        if not route.endswith(GENERATING) and (dialect, route) != COMPATIBLE:
            return
        self._count.inc()
        if status == 200:
            self._success.inc()
        else:
            error = FAILURES.get(status, "validation" if status < 500 else "generation")
            self._failure.labels(error).inc()

    def text(self) -> bytes:
        """The counters, whose names the client library ends with "_total"."""
        return generate_latest(self._plain).replace(b"_total", b"")

    def stepped(self, step: Step) -> None:
        method = METHODS[0 if step.prompts else 1]
        self._steps.labels(method).inc()
        (self._failed if step.failed else self._done).labels(method).inc()
        self._step.labels(method).observe(step.seconds)
        if step.seated:
            self._joined.observe(step.seated)

    def started(self, span: Span) -> None:
        """Nothing is counted before the end."""

    def gained(self, span: Span, seconds: float) -> None:
        """Nothing is counted before the end."""

    def finished(self, span: Span, reason: str) -> None:
        if reason in WHOLE:
            for figure, histogram in self._of_answers.items():
                histogram.observe(figure.read(span))

    def _counter(self, name: str, help: str, **labels: tuple[str, ...]) -> Counter:
        counter = Counter(f"tgi_{name}", help, tuple(labels), registry=self._plain)
        for value in (value for values in labels.values() for value in values):
            counter.labels(value)
        return counter


class State:
    """Reads an engine's state when Prometheus asks."""

    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        for name, help, attribute in STATE:
            yield GaugeMetricFamily(name, help, getattr(stats, attribute))
