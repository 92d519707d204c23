"""Learns how long steps take, by the tokens that they compute and the context that they read.

An answer's steps become longer as it grows: each reads the keys and values of all tokens before. The costs
are in CPU time of the engine's thread, which hardly depends on what else the machine does. If the thread
waits for a device without using any, the context seems to have no cost. Knows counts and seconds of steps.
"""

import math
from collections.abc import Sequence
from operator import mul

MEMORY_S = 120.0  # older steps hardly count for the costs: long answers take as long, and their steps differ
SPEED_MEMORY_S = 3.0  # likewise for the speed: at any time the machine may get other work
MIN_STEP_S = 1e-6


class StepCost:
    """The CPU seconds of a step, of a token and of a token of context, none of them negative.

    They make the sum of the squares of all relative errors least. Single long pauses hardly count then.
    """

    def __init__(self) -> None:
        self._costs = [0.0, 0.0, 0.0]
        # Sums over the steps of their counts by their CPU seconds: of the products of two, and of each.
        self._products = [[0.0, 0.0, 0.0] for _ in self._costs]
        self._sums = [0.0, 0.0, 0.0]
        self._recent_counts, self._recent_s = [0.0, 0.0, 0.0], 0.0

    def record(self, num_tokens: int, num_context_tokens: int, seconds: float, cpu_s: float) -> None:
        """Count a step that computed num_tokens and read the keys and values of num_context_tokens."""
        counts, cpu_s = (1, num_tokens, num_context_tokens), max(cpu_s, MIN_STEP_S)
        weight = math.exp(-seconds / SPEED_MEMORY_S)
        self._recent_s = self._recent_s * weight + seconds
        for index, count in enumerate(counts):
            self._recent_counts[index] = self._recent_counts[index] * weight + count
        self._fit([count / cpu_s for count in counts], math.exp(-seconds / MEMORY_S))

    def _fit(self, ratios: list[float], weight: float) -> None:
        """Improve each cost in turn: coordinate descent for non-negative least squares."""
        for index, ratio in enumerate(ratios):
            products = self._products[index]
            for other, other_ratio in enumerate(ratios):
                products[other] = products[other] * weight + ratio * other_ratio
            self._sums[index] = self._sums[index] * weight + ratio
            if products[index]:
                error = self._sums[index] - dot(products, self._costs)
                self._costs[index] = max(0.0, self._costs[index] + error / products[index])

    def step_s(self, num_context_tokens: float | None = None) -> float:
        """Seconds of a step like the recent ones, with this context; None: theirs. 0 before the first."""
        num_steps, num_tokens, _ = self._recent_counts
        if not num_steps:
            return 0.0
        recent_s = self._recent_s / num_steps
        fitted_s = dot(self._costs, self._recent_counts) / num_steps
        if num_context_tokens is None or not fitted_s:
            return recent_s
        fitted_with_context_s = dot(self._costs, (1.0, num_tokens / num_steps, num_context_tokens))
        return recent_s * fitted_with_context_s / fitted_s


def dot(costs: Sequence[float], counts: Sequence[float]) -> float:
    return sum(map(mul, costs, counts))
