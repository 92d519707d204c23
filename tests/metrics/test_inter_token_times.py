"""The times of tokens are those that prometheus_client's own histogram would count."""

import threading
from random import Random

from prometheus_client import CollectorRegistry, Histogram

from inference.metrics.inter_token_times import MAX_PENDING, InterTokenTimes

BUCKETS = (0.01, 0.1, 1.0)


def samples(metric: object) -> dict[tuple[str, frozenset], float]:
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in metric.samples}


def test_a_histogram_has_the_values_of_the_librarys_own() -> None:
    registry = CollectorRegistry()
    own = Histogram("seconds", "help", buckets=BUCKETS, registry=registry)
    times = InterTokenTimes(*BUCKETS, 0.05, 2.0)
    random = Random(1)
    for seconds in [*BUCKETS, *(random.expovariate(5) for _ in range(500))]:
        own.observe(seconds)
        times.record(seconds)
    expected = samples(next(iter(own.collect())))
    actual = samples(times.histogram("seconds", "help", BUCKETS))
    assert actual.keys() == {key for key in expected if not key[0].endswith("_created")}
    assert all(abs(actual[key] - expected[key]) < 1e-9 for key in actual)


def test_every_token_counts_and_the_first_has_no_time() -> None:
    times = InterTokenTimes(*BUCKETS)
    times.record_first()
    times.record(0.02)
    (total,) = times.counter("tokens", "help", {"model": "m"}).samples
    assert (total.name, total.labels, total.value) == ("tokens_total", {"model": "m"}, 2)
    assert samples(times.histogram("s", "help", BUCKETS))["s_count", frozenset()] == 1


def test_no_value_is_lost_between_threads() -> None:
    times = InterTokenTimes(*BUCKETS)
    threads = [
        threading.Thread(target=lambda: [times.record(0.5) for _ in range(MAX_PENDING)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert samples(times.histogram("s", "help", BUCKETS))["s_count", frozenset()] == 4 * MAX_PENDING
