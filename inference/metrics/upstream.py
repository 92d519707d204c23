"""The metrics of models on other servers, named hearth_upstream_*. They never name an address."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FIRST_TOKEN_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class UpstreamMetrics:
    """The series of all remote models, by the names under which they are served."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.requests = Counter(
            "hearth_upstream_requests",
            "Requests to upstreams by what came of them",
            ("model", "outcome"),
            registry=registry,
        )
        self.retries = Counter(
            "hearth_upstream_retries",
            "Requests sent again, by the reason",
            ("model", "reason"),
            registry=registry,
        )
        self.inflight = Gauge(
            "hearth_upstream_inflight", "Running requests to upstreams", ("model",), registry=registry
        )
        self.first_token = Histogram(
            "hearth_upstream_first_token_seconds",
            "Seconds from a request to its first event",
            ("model",),
            buckets=FIRST_TOKEN_S,
            registry=registry,
        )
        self.tokens = Counter(
            "hearth_upstream_tokens", "Tokens received from upstreams", ("model",), registry=registry
        )

        self.fallbacks = Counter(
            "hearth_upstream_fallbacks",
            "Requests that went to another model, by the model that they named",
            ("model", "to"),
            registry=registry,
        )
        self.prefix_tokens = Counter(
            "hearth_upstream_prefix_tokens",
            "Prompt tokens that a server was expected to have cached, and that it had",
            ("model", "kind"),
            registry=registry,
        )
        self.breaker_open = Gauge(
            "hearth_upstream_breaker_open",
            "Whether a server gets no requests after failures",
            ("model", "member"),
            registry=registry,
        )

    def watch_breaker(self, model: str, member: str, is_open: Callable[[], bool]) -> None:
        """Report the breaker of a server. `is_open` is called in the thread that reads the metrics."""
        self.breaker_open.labels(model, member).set_function(is_open)

    def forget_breaker(self, model: str, member: str) -> None:
        self.breaker_open.remove(model, member)

    def start_request(self, model: str) -> "UpstreamRequestStats":
        return UpstreamRequestStats(self, model)


class UpstreamRequestStats:
    """One request of a client to an upstream, from its submission to its end. Use it in one thread."""

    def __init__(self, metrics: UpstreamMetrics, model: str) -> None:
        self._metrics = metrics
        self._model = model
        self._started_at = metrics.clock()
        self._has_first_event = False
        self._tokens = metrics.tokens.labels(model)
        metrics.inflight.labels(model).inc()

    def record_retry(self, reason: str) -> None:
        self._metrics.retries.labels(self._model, reason).inc()

    def record_first_event(self) -> None:
        if not self._has_first_event:
            self._has_first_event = True
            self._metrics.first_token.labels(self._model).observe(self._metrics.clock() - self._started_at)

    def record_tokens(self, num_tokens: int) -> None:
        if num_tokens:
            self._tokens.inc(num_tokens)

    def record_prefix(self, expected_tokens: int, cached_tokens: int) -> None:
        """What the server was expected to have cached of the prompt, and what it had."""
        self._metrics.prefix_tokens.labels(self._model, "expected").inc(expected_tokens)
        self._metrics.prefix_tokens.labels(self._model, "cached").inc(cached_tokens)

    def record_end(self, outcome: str) -> None:
        """Count the end of an answer. outcome: "ok", "cancelled", or that of an UpstreamFailure."""
        self._metrics.inflight.labels(self._model).dec()
        self._metrics.requests.labels(self._model, outcome).inc()
