"""What a request may ask about its prompt beyond the logprobs of its tokens: other tokens at the same places.

A place is a token of the prompt after the first: what precedes it predicts it. Plain values only.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptScoring:
    """Other tokens to score.

    candidates  ids for each place, in the order of the prompt; empty: none
    num_draws   tokens to draw at each place, at the request's temperature
    """

    candidates: Sequence[Sequence[int]] = ()
    num_draws: int = 0


@dataclass(frozen=True, slots=True)
class PlaceScores:
    """The scores of one place of the prompt.

    candidates: the logprob of each candidate of the place. draws: (id, logprob) of each drawn token.
    """

    candidates: tuple[float, ...] = ()
    draws: tuple[tuple[int, float], ...] = ()
