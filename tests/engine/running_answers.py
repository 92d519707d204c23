"""Sequences whose answers have begun, for tests of when they end."""

from itertools import count

from inference.engine.sequence import Sequence
from inference.types import GenerationRequest
from tests.engine.sequences import RefusingSink

BUDGET = 512  # tokens of a step
ids = count()


def make_sequence(prompt: list[int], max_tokens: int, adapter: int = 0) -> Sequence:
    request = GenerationRequest(tuple(prompt), max_tokens=max_tokens, adapter_number=adapter)
    return Sequence(next(ids), request, RefusingSink(), list(prompt))


def make_answer(num_tokens: int, max_tokens: int, num_prompt_tokens: int = 4, adapter: int = 0) -> Sequence:
    """A sequence whose prompt is computed, after `num_tokens` tokens of its answer."""
    sequence = make_sequence(list(range(num_prompt_tokens)), max_tokens, adapter)
    sequence.token_ids += [5] * num_tokens
    sequence.num_computed_tokens = max(0, len(sequence.token_ids) - 1)
    return sequence
