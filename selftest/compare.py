"""Compares the answers of two scenarios: the first different token, and the largest logprob difference.

Knows collected answers; knows no engine.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

from inference.engine.step_output import TopLogprobs
from selftest.scenarios import CollectedAnswer


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first different token of an answer, at `position` in the answer to a prompt.

    logit_gap  the expected answer's logit of the expected token minus its logit of the actual token; None if
               its top logprobs do not contain the actual token
    """

    prompt_index: int
    position: int
    expected_id: int
    actual_id: int
    logit_gap: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for all answers.

    max_drift  the largest logprob difference after equal tokens, caused by rounding or a fault
    error      the message of an answer that failed
    worst      (prompt index, position) of max_drift
    """

    divergences: SequenceOf[Divergence]
    max_drift: float
    error: str = ""
    worst: tuple[int, int] = (0, 0)


def compare(
    expected_answers: SequenceOf[CollectedAnswer], actual_answers: SequenceOf[CollectedAnswer]
) -> Comparison:
    """Compare the actual with the expected answers, in the order of the prompts."""
    errors = [each.error.message for each in (*expected_answers, *actual_answers) if each.error]
    if errors:
        return Comparison((), float("inf"), errors[0])
    divergences, drifts = [], [(0.0, (0, 0))]
    for prompt_index, (expected, actual) in enumerate(zip(expected_answers, actual_answers, strict=True)):
        common_length = count_common_tokens(expected, actual)
        pairs = zip(
            expected.top_logprobs[: common_length + 1], actual.top_logprobs[: common_length + 1], strict=True
        )
        drifts += [(logprob_drift(*pair), (prompt_index, place)) for place, pair in enumerate(pairs)]
        if common_length < len(expected.token_ids):
            divergences.append(make_divergence(prompt_index, common_length, expected, actual))
    drift, worst = max(drifts, key=lambda drift_and_position: drift_and_position[0])
    return Comparison(divergences, drift, worst=worst)


def count_common_tokens(expected: CollectedAnswer, actual: CollectedAnswer) -> int:
    """The length of the common prefix, in tokens."""
    same = (a == b for a, b in zip(expected.token_ids, actual.token_ids, strict=True))
    return next((place for place, equal in enumerate(same) if not equal), len(expected.token_ids))


def logprob_drift(expected: TopLogprobs, actual: TopLogprobs) -> float:
    """The largest difference of a logprob that both contain; infinite without a common token."""
    actual_logprobs = dict(actual)
    return max(
        (abs(value - actual_logprobs[id]) for id, value in expected if id in actual_logprobs),
        default=float("inf"),
    )


def make_divergence(
    prompt_index: int, position: int, expected: CollectedAnswer, actual: CollectedAnswer
) -> Divergence:
    logprobs = dict(expected.top_logprobs[position])
    expected_id, actual_id = expected.token_ids[position], actual.token_ids[position]
    return Divergence(
        prompt_index,
        position,
        expected_id,
        actual_id,
        logprobs[expected_id] - logprobs[actual_id] if actual_id in logprobs else None,
    )
