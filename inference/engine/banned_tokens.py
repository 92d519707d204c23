"""The tokens that a request bans or allows, computed once per answer.

Knows token ids and Sampling; knows no logits.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from inference.errors import BadRequest
from inference.sampling import Sampling

NO_ALLOWED_TOKEN_MESSAGE = (
    "no token is left to choose: banned tokens, allowed tokens and the response format together exclude "
    "every token: relax one of them"
)

DEAD_END_MESSAGE = "the response format allows no token behind the answer so far ({}): simplify it"


class BannedTokens:
    """The tokens that a request's bad_words_ids and allowed_token_ids ban or allow.

    banned_ids        ids (k,) that are never sampled
    allowed_ids       the only ids (k,) that may be sampled; empty if all tokens are allowed
    banned_sequences  banned runs of several tokens, by their last token but one
    """

    def __init__(self, sampling: Sampling, stop_token_ids: frozenset[int]) -> None:
        self.banned_ids = to_tensor(single_banned_ids(sampling))
        self.allowed_ids = to_tensor(resolve_allowed_ids(sampling, stop_token_ids) or ())
        self.banned_sequences: dict[int, list[list[int]]] = {}
        for run in sampling.bad_words_ids:
            if len(run) > 1:
                self.banned_sequences.setdefault(run[-2], []).append(list(run))

    def completing_ids(self, token_ids: list[int]) -> set[int]:
        """Tokens that would complete a banned run behind token_ids."""
        candidates = self.banned_sequences.get(token_ids[-1], ())
        return {run[-1] for run in candidates if token_ids[-len(run) + 1 :] == run[:-1]}


def bans_tokens(sampling: Sampling) -> bool:
    """Whether a token may be excluded, whatever the model's logits are."""
    return bool(
        sampling.bad_words_ids
        or sampling.banned_first
        or sampling.logit_bias
        or sampling.allowed_token_ids is not None
    )


def check_any_token_allowed(
    sampling: Sampling, stop_token_ids: frozenset[int], stop_banned: bool, vocab: int
) -> None:
    """Raise BadRequest if no token can begin the answer.

    stop_banned: stop tokens cannot begin it either, because of min_tokens.
    """
    banned_ids = (
        single_banned_ids(sampling) | sampling.banned_first | (stop_token_ids if stop_banned else frozenset())
    )
    banned_ids |= {id for id, value in sampling.logit_bias.items() if value == float("-inf")}
    candidates = resolve_allowed_ids(sampling, stop_token_ids)
    if candidates is None and len(banned_ids) < vocab:
        return
    if not any(
        0 <= id < vocab and id not in banned_ids
        for id in (range(vocab) if candidates is None else candidates)
    ):
        raise BadRequest("", NO_ALLOWED_TOKEN_MESSAGE)


def resolve_allowed_ids(sampling: Sampling, stop_token_ids: frozenset[int]) -> frozenset[int] | None:
    """The only ids that may be sampled; None if all are allowed."""
    if sampling.allowed_token_ids is None or not sampling.eos_allowed:
        return sampling.allowed_token_ids
    return sampling.allowed_token_ids | stop_token_ids


def single_banned_ids(sampling: Sampling) -> frozenset[int]:
    """The tokens that are banned alone: runs of one token."""
    return frozenset(run[0] for run in sampling.bad_words_ids if len(run) == 1)


def find_followers(token_ids: list[int], prefix: list[int]) -> set[int]:
    """The tokens that followed earlier occurrences of `prefix`; token_ids ends with `prefix`.

    Only occurrences of its last token are compared: list.index finds them fast.
    """
    if not prefix:
        return set(token_ids)
    follower_ids, position = set(), -1
    for _ in range(token_ids.count(prefix[-1]) - 1):
        position = token_ids.index(prefix[-1], position + 1)
        if token_ids[max(0, position + 1 - len(prefix)) : position + 1] == prefix:
            follower_ids.add(token_ids[position + 1])
    return follower_ids


def to_tensor(ids: Iterable[int]) -> Tensor:
    return torch.tensor(list(ids), dtype=torch.int64)
