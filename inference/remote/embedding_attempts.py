"""A request for embeddings at the servers of a model: another one gets it where one fails."""

import time
from collections.abc import Sequence

from inference.events import Embedding
from inference.remote.attempts import MAX_RETRIES, OTHERS_ONLY, UNCOMPUTED
from inference.remote.failures import UpstreamFailure
from inference.remote.members.member import Member
from inference.remote.retry_budget import RetryBudget


async def embed(
    members: Sequence[Member], inputs: Sequence[str | Sequence[int]], budget: RetryBudget
) -> tuple[Embedding, ...]:
    """The vectors of the inputs, by the first server that makes them; each is tried once.

    Raises the UpstreamFailure of the last one, or NotImplementedHere.
    """
    now = time.monotonic()
    candidates = sorted(members, key=lambda member: member.breaker.is_open(now))[: 1 + MAX_RETRIES]
    for number, member in enumerate(candidates, 1):
        try:
            return await member.embed(inputs)
        except UpstreamFailure as failure:
            if number == len(candidates) or not is_sent_to_others(failure, budget):
                raise
    raise AssertionError("a model has a server")


def is_sent_to_others(failure: UpstreamFailure, budget: RetryBudget) -> bool:
    """Whether another server gets the request. It is counted, unless the failed one has computed nothing."""
    if not (failure.is_retried or failure.outcome in OTHERS_ONLY):
        return False
    return failure.outcome in UNCOMPUTED or budget.take(time.monotonic())
