"""An engine with scripted outputs. It accepts requests and output sinks as the real one does."""

from collections.abc import Iterable, Sequence

from inference.engine.sequence import Matcher
from inference.engine.step_output import OutputSink, StepOutput
from inference.engine_stats import CacheConfig, Stats
from inference.errors import ServerError, Unavailable
from inference.metrics import Metrics, ModelMetrics
from inference.types import GenerationRequest


class FakeEngine:
    def __init__(self) -> None:
        self.closed_reason = ""
        self.consecutive_failures = 0
        self.requests: list[GenerationRequest] = []
        self.matchers: list[Matcher | None] = []
        self.output_sinks: list[OutputSink] = []
        self.cancelled: list[int] = []
        self.refuses: ServerError | None = None

    def submit(
        self,
        requests: Sequence[GenerationRequest],
        output_sinks: Sequence[OutputSink],
        matchers: Sequence[Matcher | None] = (),
    ) -> list[int]:
        if self.refuses:
            raise self.refuses
        first = len(self.requests)
        self.requests += requests
        self.matchers += matchers or [None] * len(requests)
        self.output_sinks += output_sinks
        return list(range(first, len(self.requests)))

    def abort(self, ids: Iterable[int]) -> None:
        self.cancelled += ids

    def stop(self) -> None:
        self.closed_reason = "stopped"
        for output_sink in self.output_sinks:
            output_sink.put(StepOutput(error=Unavailable("stopped")))

    def say(self, ids: Iterable[int], reason: str = "stop", end: int | None = None, request: int = 0) -> None:
        """Puts one output for each id, and a last one with the finish reason and the end token, if any."""
        outputs = [StepOutput(token_ids=(id,)) for id in ids]
        outputs.append(StepOutput(token_ids=() if end is None else (end,), finish_reason=reason))
        for place, output in enumerate(outputs):
            self.put(
                StepOutput(
                    output.token_ids,
                    num_cached_tokens=None if place else 0,
                    finish_reason=output.finish_reason,
                ),
                request,
            )

    def put(self, output: StepOutput, request: int = 0) -> None:
        self.output_sinks[request].put(output)


def model_metrics() -> ModelMetrics:
    """Metrics that no test scrapes."""

    def stats() -> Stats:
        raise NotImplementedError

    cache_config = CacheConfig(16, 4, "float32", prefix_caching=True, gpu_memory_fraction=None)
    return Metrics().observe_engine(stats, model="tiny", context=64, cache_config=cache_config)
