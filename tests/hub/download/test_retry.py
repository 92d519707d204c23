"""How often an operation is retried."""

import time
from collections.abc import Callable
from threading import Event

import pytest

from hub.download.http_range import DownloadStopped, SharedState, TransientError
from hub.download.retry import RetryPolicy, retry

QUICK = RetryPolicy(max_tries=4, min_wait_s=0.001, max_wait_s=0.002)


@pytest.fixture
def signals() -> SharedState:
    return SharedState(Event())


def failing(times: int, then: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """Fails `times` times, and calls `then` each time."""
    remaining = iter(range(times))

    def attempt() -> None:
        if next(remaining, None) is not None:
            then()
            raise TransientError("no")

    return attempt


def test_an_operation_is_retried_until_it_works(signals: SharedState) -> None:
    retry(failing(3), lambda: 0, QUICK, signals)


def test_the_last_try_raises(signals: SharedState) -> None:
    with pytest.raises(TransientError):
        retry(failing(4), lambda: 0, QUICK, signals)


def test_own_progress_renews_the_tries(signals: SharedState) -> None:
    ours = [0]
    retry(failing(40, lambda: ours.append(0)), lambda: len(ours), QUICK, signals)


def test_progress_of_other_connections_renews_the_tries(signals: SharedState) -> None:
    def receive() -> None:
        signals.last_byte_at = time.monotonic()

    retry(failing(40, receive), lambda: 0, QUICK, signals)


def test_earlier_progress_of_other_connections_does_not(signals: SharedState) -> None:
    signals.last_byte_at = time.monotonic()
    with pytest.raises(TransientError):
        retry(failing(4), lambda: 0, QUICK, signals)


def test_no_retry_waits_after_the_work_was_stopped(signals: SharedState) -> None:
    signals.stop.set()
    started_at = time.monotonic()
    with pytest.raises(DownloadStopped):
        retry(failing(1), lambda: 0, RetryPolicy(min_wait_s=60), signals)
    assert time.monotonic() - started_at < 10


def test_waits_double_up_to_the_maximum() -> None:
    policy = RetryPolicy(min_wait_s=1, max_wait_s=8)
    for failures, most in enumerate((1, 2, 4, 8, 8), 1):
        waits = [policy.delay(failures) for _ in range(50)]
        assert most / 2 <= min(waits) < max(waits) <= most
