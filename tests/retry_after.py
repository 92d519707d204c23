"""How close the seconds are that refused clients get, in simulations of what they wait for."""

import math
from collections.abc import Sequence

from scripts.robustness.retry_after import RefusedAttempt


def share_close(estimates: Sequence[tuple[float, float]]) -> float:
    """The share of (expected, actual) waits whose Retry-After is close enough."""
    attempts = [RefusedAttempt(max(1, math.ceil(expected)), actual) for expected, actual in estimates]
    return sum(attempt.is_close for attempt in attempts) / len(attempts)
