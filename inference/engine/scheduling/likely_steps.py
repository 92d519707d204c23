"""How many steps answers may still take, by the lengths of recent ones, for all answers at once.

Python's loops over 256 answers and 32 lengths took several milliseconds of CPU time. Knows lengths, no times.
"""

import math
from collections.abc import Sequence as SequenceOf
from typing import NamedTuple

import numpy as np

from inference.engine.sequence import Sequence


class LikelySteps(NamedTuple):
    """One number for each answer and each recent answer that was longer than it; for want of one, its limit.

    steps  (answers, most numbers) float64; of each row the first num_likely are numbers, the rest is not used
    """

    steps: np.ndarray
    num_likely: np.ndarray  # (answers)

    @property
    def num_scenarios(self) -> int:
        return int(self.num_likely.max())

    def means(self) -> list[float]:
        is_number = np.arange(self.steps.shape[1]) < self.num_likely[:, None]
        means: list[float] = (np.where(is_number, self.steps, 0.0).sum(1) / self.num_likely).tolist()
        return means

    def scenarios(self) -> np.ndarray:
        """(answers, scenarios): every answer takes its numbers in turn.

        Each begins with another of its numbers: scenario i is not the i-th of all of them.
        """
        shifted = np.arange(len(self.steps))[:, None] + np.arange(self.num_scenarios)
        return np.take_along_axis(self.steps, shifted % self.num_likely[:, None], 1)


class GroupEnds:
    """In how many steps each group of answers ends, by scenario: with the longest of its answers."""

    def __init__(self, groups: SequenceOf[int | None], scenarios: np.ndarray) -> None:
        """groups: of each row of `scenarios`, (answers, scenarios); None: of none"""
        self._rows: dict[int | None, int] = {}  # of `_ends`, by group
        indices = [self._rows.setdefault(group, len(self._rows)) for group in groups]
        by_group = np.argsort(indices, kind="stable")
        starts = np.searchsorted(np.array(indices)[by_group], np.arange(len(self._rows)))
        self._ends = np.maximum.reduceat(scenarios[by_group], starts)  # (groups, scenarios)
        self.delay(None, math.inf)

    def delay(self, group: int | None, num_steps: float) -> None:
        """The group ends in `num_steps` at the earliest; does nothing for one that does not run."""
        if (row := self._rows.get(group)) is not None:
            np.maximum(self._ends[row], num_steps, out=self._ends[row])

    def first_end(self) -> float | None:
        """In how many steps the first group ends, the mean over scenarios; None if none is known to."""
        num_steps = float(self._ends.min(0).mean())
        return num_steps if math.isfinite(num_steps) else None


def likely_steps(
    sequences: SequenceOf[Sequence], recent_lengths: SequenceOf[float], token_budget: int
) -> LikelySteps:
    """sequences: at least one. token_budget: tokens of a step, for prompts that are not computed"""
    num_tokens, limits, num_uncomputed = np.array(
        [
            (each.num_output_tokens, each.max_len - each.num_prompt_tokens, each.num_uncomputed_tokens)
            for each in sequences
        ],
        np.float64,
    ).T[:, :, None]
    lengths = np.array(recent_lengths or [-1.0])
    is_longer = lengths > num_tokens
    longer_first = np.argsort(~is_longer, 1, kind="stable")
    num_likely = is_longer.sum(1)
    likely_lengths = np.minimum(lengths[longer_first], limits)
    likely_lengths[num_likely == 0] = limits[num_likely == 0]
    num_more = np.maximum(0.0, num_uncomputed - 1) / token_budget - num_tokens
    return LikelySteps(likely_lengths + num_more, np.maximum(num_likely, 1))
