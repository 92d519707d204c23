"""Which tokens a request rules out, worked out once for an answer.

Knows ids, and what a request says of them; nothing of logits.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from inference.errors import BadRequest
from inference.sampling import Sampling

NOTHING_LEFT = "no token is left to choose: what is banned, allowed and demanded together leaves none"


class Bans:
    """What `banned` and `allowed` come to.

    never  ids (k,) that are not chosen
    only   ids (k,) of which one is chosen; none where nothing is said of them
    runs   of several tokens, that are not chosen one behind the other; by the last but one
    """

    def __init__(self, sampling: Sampling, ends: frozenset[int]) -> None:
        self.never = tensor(singles(sampling))
        self.only = tensor(allowed(sampling, ends) or ())
        self.runs: dict[int, list[list[int]]] = {}
        for run in sampling.banned:
            if len(run) > 1:
                self.runs.setdefault(run[-2], []).append(list(run))

    def completing(self, tokens: list[int]) -> set[int]:
        """What would complete a banned run behind these tokens."""
        runs = self.runs.get(tokens[-1], ())
        return {run[-1] for run in runs if tokens[-len(run) + 1 :] == run[:-1]}


def check_left(sampling: Sampling, ends: frozenset[int], early: bool, vocab: int) -> None:
    """Raise BadRequest if no token is left to begin an answer with. early: none of the ends may."""
    gone = singles(sampling) | sampling.banned_first | (ends if early else frozenset())
    gone |= {id for id, value in sampling.bias.items() if value == float("-inf")}
    only = allowed(sampling, ends)
    if only is None and len(gone) < vocab:
        return
    if not any(0 <= id < vocab and id not in gone for id in (range(vocab) if only is None else only)):
        raise BadRequest("", NOTHING_LEFT)


def allowed(sampling: Sampling, ends: frozenset[int]) -> frozenset[int] | None:
    """The ids of which one is chosen; None where nothing is said of them."""
    if sampling.allowed is None or not sampling.allowed_ends:
        return sampling.allowed
    return sampling.allowed | ends


def singles(sampling: Sampling) -> frozenset[int]:
    """The banned runs of one token."""
    return frozenset(run[0] for run in sampling.banned if len(run) == 1)


def followers(tokens: list[int], head: list[int]) -> set[int]:
    """What has come behind the earlier occurrences of `head`, with which the tokens end.

    Looks at places where its last token stands, which a list finds fast.
    """
    if not head:
        return set(tokens)
    found, place = set(), -1
    for _ in range(tokens.count(head[-1]) - 1):
        place = tokens.index(head[-1], place + 1)
        if tokens[max(0, place + 1 - len(head)) : place + 1] == head:
            found.add(tokens[place + 1])
    return found


def tensor(ids: Iterable[int]) -> Tensor:
    return torch.tensor(list(ids), dtype=torch.int64)
