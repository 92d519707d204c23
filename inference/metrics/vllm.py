"""The names of vLLM's metrics, which begin with vllm:, as its dashboards read them.

Names, labels and buckets: vLLM 0.11, vllm/v1/metrics/loggers.py. A request there is one answer here, but for
the two figures of a request's n answers together.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.metrics.figure import LENGTHS, Buckets, Figure
from inference.metrics.span import WHOLE, Span
from inference.metrics.state import Stats, Step

FIRST_S: Buckets = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0, 160.0, 640.0, 2560.0),
)
NEXT_S: Buckets = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0),
)
WHOLE_S: Buckets = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
ANSWERS: Buckets = (1, 2, 5, 10, 20)
STEP_TOKENS: Buckets = tuple(1 << power for power in (0, *range(3, 15)))

REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "abort"}


def inference_s(span: Span) -> float:
    return span.prefill_s + span.decode_s


def mean_s(span: Span) -> float:
    return span.decode_s / (span.tokens - 1) if span.tokens > 1 else 0.0


OF_ANSWERS = (
    Figure("e2e_request_latency_seconds", "From submission to the end", WHOLE_S, lambda s: s.whole_s),
    Figure("request_queue_time_seconds", "Until the first step", WHOLE_S, lambda s: s.waited_s),
    Figure("request_prefill_time_seconds", "First step to first token", WHOLE_S, lambda s: s.prefill_s),
    Figure("request_decode_time_seconds", "First token to last", WHOLE_S, lambda s: s.decode_s),
    Figure("request_inference_time_seconds", "First step to last token", WHOLE_S, inference_s),
    Figure("request_time_per_output_token_seconds", "Between two tokens, on average", NEXT_S, mean_s),
    Figure("request_prompt_tokens", "Prompt tokens", LENGTHS, lambda s: s.asked.prompt_tokens),
    Figure("request_generation_tokens", "Generated tokens", LENGTHS, lambda s: s.tokens),
    Figure("request_params_max_tokens", "The most tokens allowed", LENGTHS, lambda s: s.asked.max_tokens),
)
OF_REQUESTS = (
    Figure("request_params_n", "Answers of a request", ANSWERS, lambda s: s.asked.answers),
    Figure("request_max_num_generation_tokens", "The longest answer", LENGTHS, lambda s: s.asked.longest),
)

# Names of counters, their help, and where an engine's state has them.
TOTALS: dict[str, tuple[str, Callable[[Stats], int]]] = {
    "num_preemptions": ("Answers that lost their row", lambda stats: stats.preemptions),
    "spec_decode_num_draft_tokens": ("Tokens guessed ahead", lambda stats: stats.drafted_tokens),
    "spec_decode_num_accepted_tokens": ("Guesses that were right", lambda stats: stats.accepted_tokens),
}


class Vllm:
    """A Listener (see span.py)."""

    def __init__(
        self, registry: CollectorRegistry, stats: Callable[[], Stats], *, model: str, context: int
    ) -> None:
        self._registry = registry
        self._labels = {"model_name": model, "engine": "0"}
        self._lengths = lengths_to(context)
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of answers that began")
        self._generation = self._counter("generation_tokens", "Generated tokens")
        self._queries = self._counter("prefix_cache_queries", "Prompt tokens looked for in the memory")
        self._hits = self._counter("prefix_cache_hits", "Prompt tokens found in the memory")
        self._success = self._successes()
        self._first = self._histogram("time_to_first_token_seconds", "From submission", FIRST_S)
        between = self._family("inter_token_latency_seconds", "Between two tokens", NEXT_S)
        self._next = between.labels(**self._labels)
        self._step = self._histogram("iteration_tokens_total", "Tokens of a step", STEP_TOKENS)
        self._of_answers = self._figures(OF_ANSWERS)
        self._of_requests = self._figures(OF_REQUESTS)
        registry.register(State(stats, self._labels))
        registry.register(Renamed(between, "vllm:time_per_output_token_seconds"))

    def stepped(self, step: Step) -> None:
        self._step.observe(step.tokens)

    def started(self, span: Span) -> None:
        self._prompt.inc(span.asked.prompt_tokens)
        self._queries.inc(span.asked.prompt_tokens)
        self._hits.inc(span.cached)

    def gained(self, span: Span, seconds: float) -> None:
        self._generation.inc()
        (self._first if span.tokens == 1 else self._next).observe(seconds)

    def finished(self, span: Span, reason: str) -> None:
        if reason in REASONS:
            self._success[reason].inc()
        if reason in WHOLE:
            self._observe(self._of_answers, span)
        if not span.asked.left:
            self._observe(self._of_requests, span)

    def _observe(self, histograms: dict[Figure, Histogram], span: Span) -> None:
        for figure, histogram in histograms.items():
            histogram.observe(figure.read(span))

    def _counter(self, name: str, help: str) -> Counter:
        counter = Counter(f"vllm:{name}", help, (*self._labels,), registry=self._registry)
        return counter.labels(**self._labels)

    def _successes(self) -> dict[str, Counter]:
        labels = (*self._labels, "finished_reason")
        ended = Counter("vllm:request_success", "Answers that ended", labels, registry=self._registry)
        return {
            reason: ended.labels(**self._labels, finished_reason=told) for reason, told in REASONS.items()
        }

    def _histogram(self, name: str, help: str, buckets: Buckets) -> Histogram:
        return self._family(name, help, buckets).labels(**self._labels)

    def _family(self, name: str, help: str, buckets: Buckets) -> Histogram:
        buckets = buckets or self._lengths
        return Histogram(f"vllm:{name}", help, (*self._labels,), buckets=buckets, registry=self._registry)

    def _figures(self, figures: Iterable[Figure]) -> dict[Figure, Histogram]:
        return {figure: self._histogram(figure.name, figure.help, figure.buckets) for figure in figures}


class State:
    """Reads an engine's state when Prometheus asks."""

    def __init__(self, stats: Callable[[], Stats], labels: dict[str, str]) -> None:
        self._stats = stats
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        used = stats.held / stats.room
        yield self._gauge("num_requests_running", "Answers that are computed", stats.running + stats.errands)
        yield self._gauge("num_requests_waiting", "Answers that wait for a row", stats.waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of the memory in use, 0 to 1", used)
        yield self._gauge("gpu_cache_usage_perc", "An older name of kv_cache_usage_perc", used)
        for name, (help, read) in TOTALS.items():
            yield self._total(name, help, read(stats))

    def _total(self, name: str, help: str, value: int) -> Metric:
        total = CounterMetricFamily(f"vllm:{name}", help, labels=tuple(self._labels))
        total.add_metric(tuple(self._labels.values()), value)
        return total

    def _gauge(self, name: str, help: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"vllm:{name}", help, labels=tuple(self._labels))
        gauge.add_metric(tuple(self._labels.values()), value)
        return gauge


class Renamed:
    """A histogram's figures once more, under its older name."""

    def __init__(self, histogram: Histogram, name: str) -> None:
        self._histogram = histogram
        self._name = name

    def collect(self) -> Iterator[Metric]:
        for metric in self._histogram.collect():
            renamed = Metric(self._name, f"An older name of {metric.name}", metric.type)
            for sample in metric.samples:
                renamed.samples.append(sample._replace(name=self._name + sample.name[len(metric.name) :]))
            yield renamed


def lengths_to(most: int) -> Buckets:
    """1, 2, 5, 10, 20, 50 … up to `most`."""
    steps = (digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5))
    return tuple(step for step in steps if step <= most)
