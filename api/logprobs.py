"""Log-probabilities as JSON can say them; the same in every dialect."""

import math

LOWEST = -9999.0  # stands for minus infinity


def finite(logprob: float) -> float:
    """At most 0, for rounding may exceed it; LOWEST for what is no number."""
    return LOWEST if math.isnan(logprob) else min(0.0, max(logprob, LOWEST))
