"""Retries with exponential backoff, and the options of a download."""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hub.download.http_range import SharedState, TransientError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Give up after `max_tries` tries in a row without a byte. Waits double from min_wait_s to max_wait_s."""

    max_tries: int = 10
    min_wait_s: float = 0.5
    max_wait_s: float = 30.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures`; jitter keeps threads from retrying at the same time."""
        return min(self.min_wait_s * 2 ** (failures - 1), self.max_wait_s) * random.uniform(0.5, 1)


def retry(
    attempt: Callable[[], None], position: Callable[[], int], policy: RetryPolicy, state: SharedState
) -> None:
    """Call `attempt` until it succeeds. Raises its last TransientError when the policy's tries are used up.

    Progress of `position` starts the count again. So does a byte that another thread received since the first
    failure: a server that limits connections still answers some of them.
    """
    failures, first_failure_at = 0, math.inf
    while True:
        before = position()
        try:
            return attempt()
        except TransientError as error:
            failures = 1 if position() > before else failures + 1
            if failures >= policy.max_tries:
                if state.last_byte_at <= first_failure_at:
                    raise
                failures = 1
            if failures == 1:
                first_failure_at = time.monotonic()
            log.debug("try=%d position=%d error=%s", failures, position(), error)
            state.last_error = str(error)
            state.wait(policy.delay(failures))


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """Options of a download.

    num_connections  connections open at the same time
    piece_bytes      bytes of one range request: small compared with a file, large compared with a round trip
    num_hashers      threads that verify hashes
    timeout_s        seconds without a byte after which a connection counts as dead
    max_refetches    how often a file with the wrong hash is fetched again
    quiet_s          seconds without a write after which a partial file counts as abandoned
    """

    num_connections: int = 8
    piece_bytes: int = 32 << 20
    num_hashers: int = 2
    timeout_s: float = 10.0
    max_refetches: int = 2
    quiet_s: float = 600.0
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)


DEFAULT_OPTIONS = DownloadOptions()
