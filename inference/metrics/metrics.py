"""The registry of all metrics: callers record events, and a scrape reads the state of the engines."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from inference.engine_stats import CacheConfig, Stats, StepStats
from inference.metrics.hearth import SHORT_S, HearthMetrics
from inference.metrics.inter_token_times import InterTokenTimes
from inference.metrics.on_demand import OnDemandMetrics
from inference.metrics.request_stats import AnswerStats, RequestInfo
from inference.metrics.tgi import TgiMetrics
from inference.metrics.upstream import UpstreamMetrics
from inference.metrics.vllm import VllmMetrics, VllmSeries
from inference.metrics.vllm_specs import INTER_TOKEN_S

disable_created_metrics()  # _created series would double the text


class Metrics:
    """Thread-safe. The metrics of vLLM and TGI exist once `observe_engine` has been called.

    vLLM's metrics have a label for the model. The other ones have no such label: they count all models.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self.clock = clock
        self._hearth = HearthMetrics(self.registry)
        self._vllm: VllmMetrics | None = None
        self._tgi: TgiMetrics | None = None
        self._upstream: UpstreamMetrics | None = None
        self._on_demand: OnDemandMetrics | None = None

    def observe_engine(
        self,
        stats: Callable[[], Stats],
        *,
        model: str,
        context: int,
        cache_config: CacheConfig,
        max_loras: int = 0,
    ) -> "ModelMetrics":
        """Call `stats` for the engine's state at every scrape. Returns what records the model's answers.

        Call once for each model. The first model's context, in tokens, is the last bucket of all histograms
        of lengths: all series of a histogram have the same buckets.
        """
        inter_token_times = InterTokenTimes(*SHORT_S, *INTER_TOKEN_S)
        self._hearth.observe_engine(stats, inter_token_times)
        self._vllm = self._vllm or VllmMetrics(self.registry, context)
        vllm_series = self._vllm.observe_engine(stats, inter_token_times, model, cache_config, max_loras)
        self._tgi = self._tgi or TgiMetrics(self.registry, context)
        self._tgi.observe_engine(stats)
        return ModelMetrics(self._hearth, vllm_series, self._tgi, inter_token_times, self.clock)

    @property
    def upstream(self) -> UpstreamMetrics:
        """The metrics of models on other servers; they exist from the first use on."""
        self._upstream = self._upstream or UpstreamMetrics(self.registry, self.clock)
        return self._upstream

    @property
    def on_demand(self) -> OnDemandMetrics:
        """The metrics of models that are loaded on demand; they exist from the first use on."""
        self._on_demand = self._on_demand or OnDemandMetrics(self.registry)
        return self._on_demand

    def record_response(self, dialect: str, route: str, status: int, seconds: float) -> None:
        """Record an HTTP response, `seconds` after the request was read.

        `route` is the URL rule: paths would make too many time series.
        """
        self._hearth.record_response(dialect, route, status, seconds)
        if self._tgi:
            self._tgi.record_response(dialect, route, status)

    def record_memory(self, term: str, predicted: int, actual: int) -> None:
        """Record the predicted and the measured bytes of a term of the memory plan."""
        self._hearth.record_memory(term, predicted, actual)

    def render(self) -> bytes:
        """The text format of Prometheus, version 0.0.4."""
        return generate_latest(self.registry) + (self._tgi.render_counters() if self._tgi else b"")


class ModelMetrics:
    """Records the answers and steps of one model."""

    def __init__(
        self,
        hearth: HearthMetrics,
        vllm_series: VllmSeries,
        tgi: TgiMetrics,
        inter_token_times: InterTokenTimes,
        clock: Callable[[], float],
    ) -> None:
        self._listeners = (hearth, vllm_series, tgi)
        self._vllm_series = vllm_series
        self._tgi = tgi
        self._inter_token_times = inter_token_times
        self._clock = clock

    def start_answers(
        self, prompt_tokens: int = 0, *, max_tokens: int = 0, num_answers: int = 1, prepared_s: float = 0.0
    ) -> list[AnswerStats]:
        """The stats of each answer to one request; the caller records the answers' progress in them.

        prepared_s: seconds spent validating and tokenizing the request.
        """
        request = RequestInfo(prompt_tokens, max_tokens, num_answers, prepared_s, self._clock())
        return [
            AnswerStats(request, self._listeners, self._inter_token_times, self._clock)
            for _ in range(num_answers)
        ]

    def record_step(self, step_stats: StepStats) -> None:
        """Record a step of the engine. Called on the engine's thread."""
        self._vllm_series.record_step(step_stats)
        self._tgi.record_step(step_stats)
