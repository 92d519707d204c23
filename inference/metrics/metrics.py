"""The registry of all metrics: callers record events, and a scrape reads the engine's state."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from inference.engine_stats import Stats, StepStats
from inference.metrics.hearth import SHORT_S, HearthMetrics
from inference.metrics.inter_token_times import InterTokenTimes
from inference.metrics.request_stats import AnswerListener, AnswerStats, RequestInfo
from inference.metrics.tgi import TgiMetrics
from inference.metrics.vllm import INTER_TOKEN_S, VllmMetrics

disable_created_metrics()  # _created series would double the text


class Metrics:
    """Thread-safe. The metrics of vLLM and TGI exist once `observe_engine` has been called."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self.clock = clock
        self._inter_token_times = InterTokenTimes(*SHORT_S, *INTER_TOKEN_S)
        self._hearth = HearthMetrics(self.registry, self._inter_token_times)
        self._vllm: VllmMetrics | None = None
        self._tgi: TgiMetrics | None = None

    def observe_engine(self, stats: Callable[[], Stats], *, model: str, context: int) -> None:
        """Call `stats` for the engine's state at every scrape. Call once; `context` is in tokens."""
        self._hearth.observe_engine(stats)
        self._vllm = VllmMetrics(self.registry, stats, self._inter_token_times, model=model, context=context)
        self._tgi = TgiMetrics(self.registry, stats, context=context)

    def record_response(self, dialect: str, route: str, status: int) -> None:
        """Record an HTTP response. `route` is the URL rule: paths would make too many time series."""
        self._hearth.record_response(dialect, route, status)
        if self._tgi:
            self._tgi.record_response(dialect, route, status)

    def start_answers(
        self, prompt_tokens: int = 0, *, max_tokens: int = 0, num_answers: int = 1, prepared_s: float = 0.0
    ) -> list["AnswerStats"]:
        """The stats of each answer to one request; the caller records the answers' progress in them.

        prepared_s: seconds spent validating and tokenizing the request.
        """
        listeners: list[AnswerListener] = [each for each in (self._hearth, self._vllm, self._tgi) if each]
        request = RequestInfo(prompt_tokens, max_tokens, num_answers, prepared_s, self.clock())
        return [
            AnswerStats(request, listeners, self._inter_token_times, self.clock) for _ in range(num_answers)
        ]

    def record_step(self, step_stats: StepStats) -> None:
        """Record a step of the engine. Called on the engine's thread."""
        if self._vllm:
            self._vllm.record_step(step_stats)
        if self._tgi:
            self._tgi.record_step(step_stats)

    def record_memory(self, term: str, predicted: int, actual: int) -> None:
        """Record the predicted and the measured bytes of a term of the memory plan."""
        self._hearth.record_memory(term, predicted, actual)

    def render(self) -> bytes:
        """The text format of Prometheus, version 0.0.4."""
        return generate_latest(self.registry) + (self._tgi.render_counters() if self._tgi else b"")
