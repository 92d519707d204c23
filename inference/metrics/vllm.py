"""The metrics of vLLM, named vllm:*, for its dashboards.

Names, labels and buckets: vLLM 0.11, vllm/v1/metrics/loggers.py. A request in these metrics is one answer;
only REQUEST_HISTOGRAMS record the n answers of a request once.
"""

from collections.abc import Callable, Iterable, Iterator

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

REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "abort"}


def first_step_to_last_token_s(answer_stats: AnswerStats) -> float:
    return answer_stats.prefill_s + answer_stats.decode_s


def mean_inter_token_s(answer_stats: AnswerStats) -> float:
    return answer_stats.decode_s / (answer_stats.num_tokens - 1) if answer_stats.num_tokens > 1 else 0.0


ANSWER_HISTOGRAMS = (
    HistogramSpec(
        "e2e_request_latency_seconds", "Seconds from submission to the end", REQUEST_S, lambda s: s.total_s
    ),
    HistogramSpec(
        "request_queue_time_seconds",
        "Seconds from submission to the first step",
        REQUEST_S,
        lambda s: s.queue_time_s,
    ),
    HistogramSpec(
        "request_prefill_time_seconds",
        "Seconds from first step to first token",
        REQUEST_S,
        lambda s: s.prefill_s,
    ),
    HistogramSpec(
        "request_decode_time_seconds", "Seconds from first token to last", REQUEST_S, lambda s: s.decode_s
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
        "request_prompt_tokens", "Prompt tokens", CONTEXT_BUCKETS, lambda s: s.request.prompt_tokens
    ),
    HistogramSpec("request_generation_tokens", "Generated tokens", CONTEXT_BUCKETS, lambda s: s.num_tokens),
    HistogramSpec(
        "request_params_max_tokens",
        "Most tokens that an answer may have",
        CONTEXT_BUCKETS,
        lambda s: s.request.max_tokens,
    ),
)
REQUEST_HISTOGRAMS = (
    HistogramSpec("request_params_n", "Answers per request", CHOICE_COUNTS, lambda s: s.request.num_answers),
    HistogramSpec(
        "request_max_num_generation_tokens",
        "Tokens of the longest answer to a request",
        CONTEXT_BUCKETS,
        lambda s: s.request.longest_output,
    ),
)

INTER_TOKEN_HISTOGRAMS = {
    "inter_token_latency_seconds": "Seconds between two tokens of an answer",
    "time_per_output_token_seconds": "Older name of vllm:inter_token_latency_seconds",
}

# Counter name: (help, reader of its value in Stats).
ENGINE_COUNTERS: dict[str, tuple[str, Callable[[Stats], int]]] = {
    "num_preemptions": ("Preemptions: answers that lost their KV memory", lambda stats: stats.preemptions),
    "spec_decode_num_draft_tokens": ("Draft tokens computed", lambda stats: stats.drafted_tokens),
    "spec_decode_num_accepted_tokens": ("Draft tokens accepted", lambda stats: stats.accepted_tokens),
}


class VllmMetrics:
    """An AnswerListener."""

    def __init__(
        self,
        registry: CollectorRegistry,
        stats: Callable[[], Stats],
        inter_token_times: InterTokenTimes,
        *,
        model: str,
        context: int,
    ) -> None:
        self._registry = registry
        self._labels = {"model_name": model, "engine": "0"}
        self._context_buckets = buckets_to(context)
        self._prompt = self._counter("prompt_tokens", "Prompt tokens of answers that have started")
        self._queries = self._counter("prefix_cache_queries", "Prompt tokens looked up in the prefix cache")
        self._hits = self._counter("prefix_cache_hits", "Prompt tokens from the prefix cache")
        self._success = self._success_counters()
        self._time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Seconds from submission to the first token", FIRST_TOKEN_S
        )
        self._step_tokens = self._histogram(
            "iteration_tokens_total", "Tokens computed by a step", STEP_TOKENS
        )
        self._answer_histograms = self._histograms(ANSWER_HISTOGRAMS)
        self._request_histograms = self._histograms(REQUEST_HISTOGRAMS)
        registry.register(VllmCollector(stats, inter_token_times, self._labels))

    def record_step(self, step_stats: StepStats) -> None:
        self._step_tokens.observe(step_stats.num_tokens)

    def on_started(self, answer_stats: AnswerStats) -> None:
        self._prompt.inc(answer_stats.request.prompt_tokens)
        self._queries.inc(answer_stats.request.prompt_tokens)
        self._hits.inc(answer_stats.num_cached_tokens)

    def on_first_token(self, seconds: float) -> None:
        self._time_to_first_token.observe(seconds)

    def on_finished(self, answer_stats: AnswerStats, reason: str) -> None:
        if reason in REASONS:
            self._success[reason].inc()
        if reason in COMPLETE_REASONS:
            self._observe(self._answer_histograms, answer_stats)
        if not answer_stats.request.num_unfinished:
            self._observe(self._request_histograms, answer_stats)

    def _observe(self, histograms: dict[HistogramSpec, Histogram], answer_stats: AnswerStats) -> None:
        for spec, histogram in histograms.items():
            histogram.observe(spec.read(answer_stats))

    def _counter(self, name: str, help: str) -> Counter:
        counter = Counter(f"vllm:{name}", help, (*self._labels,), registry=self._registry)
        return counter.labels(**self._labels)

    def _success_counters(self) -> dict[str, Counter]:
        labels = (*self._labels, "finished_reason")
        success = Counter("vllm:request_success", "Ended answers by reason", labels, registry=self._registry)
        return {
            reason: success.labels(**self._labels, finished_reason=vllm_reason)
            for reason, vllm_reason in REASONS.items()
        }

    def _histogram(self, name: str, help: str, buckets: Buckets) -> Histogram:
        buckets = buckets or self._context_buckets
        family = Histogram(f"vllm:{name}", help, (*self._labels,), buckets=buckets, registry=self._registry)
        return family.labels(**self._labels)

    def _histograms(self, specs: Iterable[HistogramSpec]) -> dict[HistogramSpec, Histogram]:
        return {spec: self._histogram(spec.name, spec.help, spec.buckets) for spec in specs}


class VllmCollector:
    """Reads the engine's state at every scrape."""

    def __init__(
        self, stats: Callable[[], Stats], inter_token_times: InterTokenTimes, labels: dict[str, str]
    ) -> None:
        self._stats = stats
        self._inter_token_times = inter_token_times
        self._labels = labels

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
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
        yield self._inter_token_times.counter("vllm:generation_tokens", "Generated tokens", self._labels)
        for name, help in INTER_TOKEN_HISTOGRAMS.items():
            yield self._inter_token_times.histogram(f"vllm:{name}", help, INTER_TOKEN_S, self._labels)

    def _total(self, name: str, help: str, value: int) -> Metric:
        total = CounterMetricFamily(f"vllm:{name}", help, labels=tuple(self._labels))
        total.add_metric(tuple(self._labels.values()), value)
        return total

    def _gauge(self, name: str, help: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(f"vllm:{name}", help, labels=tuple(self._labels))
        gauge.add_metric(tuple(self._labels.values()), value)
        return gauge


def buckets_to(max_tokens: int) -> Buckets:
    """1, 2, 5, 10, 20, 50 … up to max_tokens."""
    buckets = (digit * 10**power for power in range(len(str(max_tokens))) for digit in (1, 2, 5))
    return tuple(bucket for bucket in buckets if bucket <= max_tokens)
