"""Whether answers are the same; and where they are not, whether a tie or a fault has turned them.

Knows answers; not how they came about.
"""

from collections.abc import Sequence as Several
from dataclasses import dataclass

from inference.engine.sequence import Tops
from selftest.asked import Answer


@dataclass(frozen=True, slots=True)
class Turn:
    """The first token that came out otherwise: which prompt's, at which place of the answer.

    gap  how much more probable the right one was, in logits; None where the other was not among the probable
    """

    prompt: int
    place: int
    right: int
    other: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """drift  the largest difference of a logprob behind the same tokens: what arithmetic did, or a fault;
    `worst` is the prompt and the place of the answer where it is
    """

    turns: Several[Turn]
    drift: float
    error: str = ""
    worst: tuple[int, int] = (0, 0)


def compare(right: Several[Answer], others: Several[Answer]) -> Verdict:
    """What the others have become."""
    errors = [answer.error.message for answer in (*right, *others) if answer.error]
    if errors:
        return Verdict((), float("inf"), errors[0])
    turns, drifts = [], [(0.0, (0, 0))]
    for prompt, (one, other) in enumerate(zip(right, others, strict=True)):
        parted = parting(one, other)
        pairs = zip(one.tops[: parted + 1], other.tops[: parted + 1], strict=True)
        drifts += [(drifted(*pair), (prompt, place)) for place, pair in enumerate(pairs)]
        if parted < len(one.ids):
            turns.append(turn(prompt, parted, one, other))
    drift, worst = max(drifts, key=lambda found: found[0])
    return Verdict(turns, drift, worst=worst)


def parting(one: Answer, other: Answer) -> int:
    """How many tokens they have in common."""
    same = (a == b for a, b in zip(one.ids, other.ids, strict=True))
    return next((place for place, equal in enumerate(same) if not equal), len(one.ids))


def drifted(one: Tops, other: Tops) -> float:
    """The largest difference of a logprob that both tell; without end where they have no token in common."""
    told = dict(other)
    return max((abs(value - told[id]) for id, value in one if id in told), default=float("inf"))


def turn(prompt: int, place: int, one: Answer, other: Answer) -> Turn:
    told = dict(one.tops[place])
    right, came = one.ids[place], other.ids[place]
    return Turn(prompt, place, right, came, told[right] - told[came] if came in told else None)
