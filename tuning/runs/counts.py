"""What the executor of runs has done since the server's start, and its metrics, named hearth_tuning_run*."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(slots=True)
class RunCounts:
    """What has been done since the start.

    requests: executed; tokens: of passes; seconds: of all requests.
    """

    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0


class RunsCollector:
    """Collects the metrics of runs when they are asked for.

    num_resident: runs in the trainer's memory; num_waiting: requests that have not begun.
    """

    def __init__(
        self, counts: RunCounts, num_resident: Callable[[], int], num_waiting: Callable[[], int]
    ) -> None:
        self._counts, self._num_resident, self._num_waiting = counts, num_resident, num_waiting

    def collect(self) -> Iterable[Metric]:
        counts = self._counts
        yield GaugeMetricFamily("hearth_tuning_runs", "Training runs in memory", self._num_resident())
        waiting = "Requests to training runs that wait"
        yield GaugeMetricFamily("hearth_tuning_run_requests_waiting", waiting, self._num_waiting())
        yield CounterMetricFamily(
            "hearth_tuning_run_requests", "Executed requests to training runs", counts.requests
        )
        yield CounterMetricFamily("hearth_tuning_run_tokens", "Tokens of passes of runs", counts.tokens)
        yield CounterMetricFamily(
            "hearth_tuning_run_seconds", "Seconds of requests to training runs", counts.seconds
        )
