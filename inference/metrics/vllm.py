"""The metrics of vLLM, named vllm:*, for its dashboards.

Names and labels: vLLM, vllm/v1/metrics/loggers.py. A request in these metrics is one answer;
only REQUEST_HISTOGRAMS record the n answers of a request once.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.engine_stats import CacheConfig, Stats, StepStats
from inference.metrics.inter_token_times import InterTokenTimes
from inference.metrics.request_stats import COMPLETE_REASONS, AnswerStats, Buckets, HistogramSpec
from inference.metrics.vllm_specs import (
    ANSWER_HISTOGRAMS,
    FIRST_TOKEN_S,
    INTER_TOKEN_S,
    PROMPT_COUNTERS,
    PROMPT_SOURCES,
    REQUEST_HISTOGRAMS,
    STEP_TOKENS,
)

LABELS = ("model_name", "engine")
REASONS = {"stop": "stop", "length": "length", "deadline": "length", "cancelled": "abort"}

INTER_TOKEN_HISTOGRAMS = {
    "inter_token_latency_seconds": "Seconds between two tokens of an answer",
    "time_per_output_token_seconds": "Older name of vllm:inter_token_latency_seconds",
}

# Counter name: (help, reader of its value in Stats).
ENGINE_COUNTERS: dict[str, tuple[str, Callable[[Stats], int]]] = {
    "num_preemptions": ("Preemptions: answers that lost their KV memory", attrgetter("preemptions")),
    "spec_decode_num_drafts": ("Drafts computed", attrgetter("drafts")),
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
        self.prompt_counters = {spec: self._counter(spec.name, spec.help) for spec in PROMPT_COUNTERS}
        self.prompt_sources = self._counter("prompt_tokens_by_source", "Prompt tokens by source", "source")
        self.success = self._counter("request_success", "Ended answers by reason", "finished_reason")
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Seconds from submission to the first token", FIRST_TOKEN_S
        )
        self.step_tokens = self._histogram(
            "iteration_tokens_total",
            "Tokens that a step finished: whole prompts, and generated tokens",
            STEP_TOKENS,
        )
        self.answer_histograms = self._histograms(ANSWER_HISTOGRAMS)
        self.request_histograms = self._histograms(REQUEST_HISTOGRAMS)
        self._collector = VllmCollector()
        registry.register(self._collector)

    def observe_engine(
        self,
        stats: Callable[[], Stats],
        inter_token_times: InterTokenTimes,
        model: str,
        cache_config: CacheConfig,
        max_loras: int,
    ) -> "VllmSeries":
        labels = {"model_name": model, "engine": "0"}
        engine = ObservedEngine(stats, inter_token_times, cache_config, max_loras, labels)
        self._collector.engines.append(engine)
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
        self._prompt_counters = [
            (spec.read, family.labels(**labels)) for spec, family in families.prompt_counters.items()
        ]
        self._prompt_counters += [
            (read, families.prompt_sources.labels(**labels, source=source))
            for source, read in PROMPT_SOURCES.items()
        ]
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
        if step_stats.num_processed_tokens:
            self._step_tokens.observe(step_stats.num_processed_tokens)

    def on_started(self, answer_stats: AnswerStats) -> None:
        for read, counter in self._prompt_counters:
            counter.inc(read(answer_stats))

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
    cache_config: CacheConfig
    max_loras: int
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
        yield self._gauge(
            "num_requests_waiting_by_reason", "Waiting answers by reason", stats.waiting, reason="capacity"
        )
        yield self._gauge("kv_cache_usage_perc", "Share of the KV cache that running answers use", used)
        yield self._gauge("gpu_cache_usage_perc", "Older name of kv_cache_usage_perc", used)
        yield self._gauge("cache_config_info", "The KV cache", 1, **cache_labels(self.cache_config))
        yield self._lora_requests(stats)
        for name, (help, read) in ENGINE_COUNTERS.items():
            yield self._total(name, help, read(stats))
        yield self.inter_token_times.counter("vllm:generation_tokens", "Generated tokens", self.labels)
        for name, help in INTER_TOKEN_HISTOGRAMS.items():
            yield self.inter_token_times.histogram(f"vllm:{name}", help, INTER_TOKEN_S, self.labels)

    def _lora_requests(self, stats: Stats) -> Metric:
        """As in vLLM, the labels are the state, and the value is the time."""
        labels = {
            "max_lora": str(self.max_loras),
            "running_lora_adapters": ",".join(stats.running_adapters),
            "waiting_lora_adapters": ",".join(stats.waiting_adapters),
        }
        gauge = GaugeMetricFamily(
            "vllm:lora_requests_info", "Adapters of running and waiting answers", labels=tuple(labels)
        )
        gauge.add_metric(tuple(labels.values()), time.time())
        return gauge

    def _total(self, name: str, help: str, value: int) -> Metric:
        total = CounterMetricFamily(f"vllm:{name}", help, labels=LABELS)
        total.add_metric(tuple(self.labels.values()), value)
        return total

    def _gauge(self, name: str, help: str, value: float, **labels: str) -> Metric:
        labels = self.labels | labels
        gauge = GaugeMetricFamily(f"vllm:{name}", help, labels=tuple(labels))
        gauge.add_metric(tuple(labels.values()), value)
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


def cache_labels(cache_config: CacheConfig) -> dict[str, str]:
    """The labels of cache_config_info: vLLM's names, and as in vLLM the text of Python's values."""
    values = {
        "block_size": cache_config.page_size,
        "cache_dtype": cache_config.dtype,
        "enable_prefix_caching": cache_config.prefix_caching,
        "gpu_memory_utilization": cache_config.gpu_memory_fraction,
        "kv_cache_size_tokens": cache_config.page_size * cache_config.num_pages,
        "num_gpu_blocks": cache_config.num_pages,
    }
    return {name: str(value) for name, value in values.items()}
