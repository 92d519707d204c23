"""The ends of all answers at once are those of a loop over each answer and each length."""

import math
import random
from collections.abc import Sequence as SequenceOf

import numpy as np
import pytest

from inference.engine.scheduling.likely_steps import GroupEnds, likely_steps
from inference.engine.sequence import Sequence
from tests.engine.running_answers import BUDGET, make_answer, make_sequence


def likely_steps_of_one(sequence: Sequence, lengths: SequenceOf[float]) -> list[float]:
    num_tokens, limit = sequence.num_output_tokens, sequence.max_len - sequence.num_prompt_tokens
    num_more = max(0, sequence.num_uncomputed_tokens - 1) / BUDGET - num_tokens
    return [min(each, limit) + num_more for each in lengths if each > num_tokens] or [limit + num_more]


def first_end(groups: SequenceOf[int | None], steps: SequenceOf[SequenceOf[float]]) -> float:
    """The mean, over scenarios, of the earliest end of a group."""
    num_scenarios = max(len(each) for each in steps)
    ends = []
    for scenario in range(num_scenarios):
        num_steps = [each[(scenario + index) % len(each)] for index, each in enumerate(steps)]
        ends.append(
            min(
                max(end for end, group in zip(num_steps, groups, strict=True) if group == each)
                for each in {*groups} - {None}
            )
        )
    return sum(ends) / num_scenarios


@pytest.mark.parametrize("num_lengths", [0, 1, 5, 32])
def test_all_answers_at_once_are_as_each_alone(num_lengths: int) -> None:
    draws = random.Random(num_lengths)
    lengths = [draws.choice([math.inf, draws.randrange(1, 600)]) for _ in range(num_lengths)]
    sequences = [make_answer(draws.randrange(0, 500), draws.randrange(500, 800)) for _ in range(40)]
    sequences += [make_sequence(list(range(draws.randrange(1, 2000))), 50) for _ in range(10)]
    groups = [None, *(draws.randrange(8) for _ in sequences[1:])]
    plain = [likely_steps_of_one(sequence, lengths) for sequence in sequences]
    steps = likely_steps(sequences, lengths, BUDGET)
    assert [row[:num].tolist() for row, num in zip(*steps, strict=True)] == plain
    assert steps.means() == pytest.approx([sum(each) / len(each) for each in plain], rel=1e-12)
    ends = GroupEnds(groups, steps.scenarios())
    assert ends.first_end() == pytest.approx(first_end(groups, plain), rel=1e-12)


def test_a_group_with_answers_that_never_start_does_not_end_first() -> None:
    ends = GroupEnds([7, None, 3], np.array([[1.0, 2.0], [0.0, 0.0], [5.0, 6.0]]))
    assert ends.first_end() == 1.5
    ends.delay(7, 5.5)
    assert ends.first_end() == 5.25
    ends.delay(7, math.inf)
    assert ends.first_end() == 5.5
    ends.delay(3, math.inf)
    assert ends.first_end() is None
