"""The metrics of fine-tuning jobs for Prometheus, named hearth_tuning_*."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tuning.types import Job, Status


class TuningCollector:
    """Reads the jobs at every scrape."""

    def __init__(self, read_jobs: Callable[[], list[Job]]) -> None:
        self._read_jobs = read_jobs

    def collect(self) -> Iterable[Metric]:
        jobs = self._read_jobs()
        counts = Counter(job.status for job in jobs)
        by_status = GaugeMetricFamily("hearth_tuning_jobs", "Fine-tuning jobs by status", labels=("status",))
        for status in get_args(Status):
            by_status.add_metric((status,), counts[status])
        yield by_status
        steps = sum(job.progress.step for job in jobs)
        yield CounterMetricFamily("hearth_tuning_steps", "Training steps of all jobs", steps)
        speed = sum(job.progress.tokens_per_second or 0 for job in jobs if job.status == "running")
        yield GaugeMetricFamily(
            "hearth_tuning_tokens_per_second", "Tokens a second that the running jobs train", speed
        )
