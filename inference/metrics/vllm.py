"""The metrics of vLLM, named vllm:*, for its dashboards.

Names, labels and buckets: vLLM 0.11, vllm/v1/metrics/loggers.py. A request in these metrics is one answer;
only REQUEST_HISTOGRAMS record the n answers of a request once.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.engine_stats import Stats, StepStats
from inference.metrics.inter_token_times import InterTokenTimes
from inference.metrics.request_stats import (
    COMPLETE_REASONS,
    CONTEXT_BUCKETS,
    AnswerStats,
    Buckets,
    HistogramSpec,
)

FIRST_TOKEN_S: Buckets = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0, 160.0, 640.0, 2560.0),
)
INTER_TOKEN_S: Buckets = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0),
)
REQUEST_S: Buckets = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
CHOICE_COUNTS: Buckets = (1, 2, 5, 10, 20)
STEP_TOKENS: Buckets = tuple(1 << power for power in (0, *range(3, 15)))

LABELS = ("model_name", "engine")
REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "abort"}


def first_step_to_last_token_s(answer_stats: AnswerStats) -> float:
    return answer_stats.prefill_s + answer_stats.decode_s


def mean_inter_token_s(answer_stats: AnswerStats) -> float:
    return answer_stats.decode_s / (answer_stats.num_tokens - 1) if answer_stats.num_tokens > 1 else 0.0


ANSWER_HISTOGRAMS = (
    HistogramSpec(
        "e2e_request_latency_seconds", "Seconds from submission to the end", REQUEST_S, attrgetter("total_s")
    ),
    HistogramSpec(
        "request_queue_time_seconds",
        "Seconds from submission to the first step",
        REQUEST_S,
        attrgetter("queue_time_s"),
    ),
    HistogramSpec(
        "request_prefill_time_seconds",
        "Seconds from first step to first token",
        REQUEST_S,
        attrgetter("prefill_s"),
    ),
    HistogramSpec(
        "request_decode_time_seconds", "Seconds from first token to last", REQUEST_S, attrgetter("decode_s")
    ),
    HistogramSpec(
        "request_inference_time_seconds",
        "Seconds from first step to last token",
        REQUEST_S,
        first_step_to_last_token_s,
    ),
    HistogramSpec(
        "request_time_per_output_token_seconds",
        "Mean seconds between two tokens of an answer",
        INTER_TOKEN_S,
        mean_inter_token_s,
    ),
    HistogramSpec(
        "request_prompt_tokens", "Prompt tokens", CONTEXT_BUCKETS, attrgetter("request.prompt_tokens")
    ),
    HistogramSpec("request_generation_tokens", "Generated tokens", CONTEXT_BUCKETS, attrgetter("num_tokens")),
    HistogramSpec(
        "request_params_max_tokens",
        "Most tokens that an answer may have",
        CONTEXT_BUCKETS,
        attrgetter("request.max_tokens"),
    ),
)
REQUEST_HISTOGRAMS = (
    HistogramSpec(
        "request_params_n", "Answers per request", CHOICE_COUNTS, attrgetter("request.num_answers")
    ),
    HistogramSpec(
        "request_max_num_generation_tokens",
        "Tokens of the longest answer to a request",
        CONTEXT_BUCKETS,
        attrgetter("request.longest_output"),
    ),
)

INTER_TOKEN_HISTOGRAMS = {
    "inter_token_latency_seconds": "Seconds between two tokens of an answer",
    "time_per_output_token_seconds": "Older name of vllm:inter_token_latency_seconds",
}

# Counter name: (help, reader of its value in Stats).
ENGINE_COUNTERS: dict[str, tuple[str, Callable[[Stats], int]]] = {
    "num_preemptions": ("Preemptions: answers that lost their KV memory", attrgetter("preemptions")),
    "spec_decode_num_draft_tokens": ("Draft tokens computed", attrgetter("drafted_tokens")),
    "spec_decode_num_accepted_tokens": ("Draft tokens accepted", attrgetter("accepted_tokens")),
}


class VllmMetrics:
    """The metric families, each with a series for every model.

    The context of the first model is the last bucket of histograms of lengths.
    """

    def __init__(self, registry: CollectorRegistry, context: int) -> None:
        self._registry = registry
        self._context_buckets = buckets_to(context)
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of answers that have started")
        self.cache_queries = self._counter(
            "prefix_cache_queries", "Prompt tokens looked up in the prefix cache"
        )
        self.cache_hits = self._counter("prefix_cache_hits", "Prompt tokens from the prefix cache")
        self.success = self._counter("request_success", "Ended answers by reason", "finished_reason")
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Seconds from submission to the first token", FIRST_TOKEN_S
        )
        self.step_tokens = self._histogram("iteration_tokens_total", "Tokens computed by a step", STEP_TOKENS)
        self.answer_histograms = self._histograms(ANSWER_HISTOGRAMS)
        self.request_histograms = self._histograms(REQUEST_HISTOGRAMS)
        self._collector = VllmCollector()
        registry.register(self._collector)

    def observe_engine(
        self, stats: Callable[[], Stats], inter_token_times: InterTokenTimes, model: str
    ) -> "VllmSeries":
        labels = {"model_name": model, "engine": "0"}
        self._collector.engines.append(ObservedEngine(stats, inter_token_times, labels))
        return VllmSeries(self, labels)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", help, (*LABELS, *labels), registry=self._registry)

    def _histogram(self, name: str, help: str, buckets: Buckets) -> Histogram:
        buckets = buckets or self._context_buckets
        return Histogram(f"vllm:{name}", help, LABELS, buckets=buckets, registry=self._registry)

    def _histograms(self, specs: Iterable[HistogramSpec]) -> dict[HistogramSpec, Histogram]:
        return {spec: self._histogram(spec.name, spec.help, spec.buckets) for spec in specs}


class VllmSeries:
    """The series of one model. An AnswerListener."""

    def __init__(self, families: VllmMetrics, labels: dict[str, str]) -> None:
        self._prompt_tokens = families.prompt_tokens.labels(**labels)
        self._cache_queries = families.cache_queries.labels(**labels)
        self._cache_hits = families.cache_hits.labels(**labels)
        self._success = {
            reason: families.success.labels(**labels, finished_reason=vllm_reason)
            for reason, vllm_reason in REASONS.items()
        }
        self._time_to_first_token = families.time_to_first_token.labels(**labels)
        self._step_tokens = families.step_tokens.labels(**labels)
        self._answer_histograms = [
            (spec.read, family.labels(**labels)) for spec, family in families.answer_histograms.items()
        ]
        self._request_histograms = [
            (spec.read, family.labels(**labels)) for spec, family in families.request_histograms.items()
        ]

    def record_step(self, step_stats: StepStats) -> None:
        self._step_tokens.observe(step_stats.num_tokens)

    def on_started(self, answer_stats: AnswerStats) -> None:
        self._prompt_tokens.inc(answer_stats.request.prompt_tokens)
        self._cache_queries.inc(answer_stats.request.prompt_tokens)
        self._cache_hits.inc(answer_stats.num_cached_tokens)

    def on_first_token(self, seconds: float) -> None:
        self._time_to_first_token.observe(seconds)

    def on_finished(self, answer_stats: AnswerStats, reason: str) -> None:
        if reason in REASONS:
            self._success[reason].inc()
        if reason in COMPLETE_REASONS:
            for read, histogram in self._answer_histograms:
                histogram.observe(read(answer_stats))
        if not answer_stats.request.num_unfinished:
            for read, histogram in self._request_histograms:
                histogram.observe(read(answer_stats))


@dataclass(frozen=True, slots=True)
class ObservedEngine:
    """The engine of one model, and the labels of the model's series."""

    stats: Callable[[], Stats]
    inter_token_times: InterTokenTimes
    labels: dict[str, str]

    def families(self) -> Iterator[Metric]:
        """The metric families, with this model's series only."""
        stats = self.stats()
        used = stats.kv_used / stats.kv_capacity
        yield self._gauge(
            "num_requests_running",
            "Running answers and background tasks",
            stats.running + stats.background_tasks,
        )
        yield self._gauge("num_requests_waiting", "Waiting answers", stats.waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of the KV cache that running answers use", used)
        yield self._gauge("gpu_cache_usage_perc", "Older name of kv_cache_usage_perc", used)
        for name, (help, read) in ENGINE_COUNTERS.items():
            yield self._total(name, help, read(stats))
        yield self.inter_token_times.counter("vllm:generation_tokens", "Generated tokens", self.labels)
        for name, help in INTER_TOKEN_HISTOGRAMS.items():
            yield self.inter_token_times.histogram(f"vllm:{name}", help, INTER_TOKEN_S, self.labels)

    def _total(self, name: str, help: str, value: int) -> Metric:
        total = CounterMetricFamily(f"vllm:{name}", help, labels=LABELS)
        total.add_metric(tuple(self.labels.values()), value)
        return total

    def _gauge(self, name: str, help: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"vllm:{name}", help, labels=LABELS)
        gauge.add_metric(tuple(self.labels.values()), value)
        return gauge


class VllmCollector:
    """Reads the state of all engines at every scrape."""

    def __init__(self) -> None:
        self.engines: list[ObservedEngine] = []

    def collect(self) -> Iterator[Metric]:
        for family, *others in zip(*(engine.families() for engine in self.engines), strict=True):
            for other in others:
                family.samples += other.samples
            yield family


def buckets_to(max_tokens: int) -> Buckets:
    """1, 2, 5, 10, 20, 50 … up to max_tokens."""
    buckets = (digit * 10**power for power in range(len(str(max_tokens))) for digit in (1, 2, 5))
    return tuple(bucket for bucket in buckets if bucket <= max_tokens)
