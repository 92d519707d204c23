"""The seconds between the tokens of a model's answers: recorded once a token, shown in several histograms."""

import math
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

MAX_PENDING = 4096  # recorded values before they are sorted into buckets, which takes about a millisecond


class InterTokenTimes:
    """Thread-safe. A recorded value waits in a queue until a scrape, or until MAX_PENDING wait.

    edges  the upper bounds of all histograms' buckets
    """

    def __init__(self, *edges: float) -> None:
        self._edges = sorted(set(edges))
        self._counts = [0] * (len(self._edges) + 1)
        self._sum_s = 0.0
        self._num_first_tokens = 0
        self._pending: deque[float] = deque()
        self._lock = threading.Lock()

    def record(self, seconds: float) -> None:
        """A token was generated, `seconds` after the previous token of its answer."""
        self._pending.append(seconds)
        if len(self._pending) >= MAX_PENDING:
            self._fold()

    def record_first(self) -> None:
        """The first token of an answer was generated."""
        with self._lock:
            self._num_first_tokens += 1

    def add(self, other: "InterTokenTimes") -> None:
        """Add the values recorded in `other`, which has all edges of this object and possibly more."""
        other._fold()
        for edge, count in zip((*other._edges, math.inf), other._counts, strict=True):
            self._counts[bisect_left(self._edges, edge)] += count
        self._sum_s += other._sum_s
        self._num_first_tokens += other._num_first_tokens

    def histogram(
        self, name: str, help: str, buckets: Sequence[float], labels: Mapping[str, str] | None = None
    ) -> Metric:
        """`buckets`: upper bounds, all of them among `edges`."""
        self._fold()
        at_most = dict(zip(self._edges, accumulate(self._counts), strict=False))
        values = [(floatToGoString(bound), at_most[bound]) for bound in buckets]
        family = HistogramMetricFamily(name, help, labels=tuple(labels or ()))
        family.add_metric(
            tuple((labels or {}).values()), [*values, ("+Inf", sum(self._counts))], sum_value=self._sum_s
        )
        return family

    def counter(self, name: str, help: str, labels: Mapping[str, str]) -> Metric:
        """All generated tokens."""
        self._fold()
        family = CounterMetricFamily(name, help, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), self._num_first_tokens + sum(self._counts))
        return family

    def _fold(self) -> None:
        with self._lock:
            for _ in range(len(self._pending)):
                seconds = self._pending.popleft()
                self._counts[bisect_left(self._edges, seconds)] += 1
                self._sum_s += seconds
