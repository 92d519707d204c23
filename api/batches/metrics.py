"""The metrics of batches for Prometheus, named hearth_batch*."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from api.batches.types import UNFINISHED, BatchJob, Status


class BatchCollector:
    """Reads the batches at every scrape."""

    def __init__(self, read_batches: Callable[[], list[BatchJob]]) -> None:
        self._read_batches = read_batches

    def collect(self) -> Iterable[Metric]:
        batches = self._read_batches()
        by_status = Counter(batch.status for batch in batches)
        gauge = GaugeMetricFamily("hearth_batches", "Batches by status", labels=("status",))
        for status in get_args(Status):
            gauge.add_metric((status,), by_status[status])
        yield gauge
        counter = CounterMetricFamily(
            "hearth_batch_requests", "Answered requests of all batches", labels=("result",)
        )
        counter.add_metric(("completed",), sum(batch.counts.completed for batch in batches))
        counter.add_metric(("failed",), sum(batch.counts.failed for batch in batches))
        yield counter
        yield GaugeMetricFamily(
            "hearth_batch_requests_unfinished",
            "Requests of unfinished batches without an answer",
            sum(batch.counts.num_unfinished for batch in batches if batch.status in UNFINISHED),
        )
