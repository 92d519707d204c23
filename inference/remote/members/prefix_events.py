"""Asks the Hearths of a model which prompts they have got: several servers in front of them know the same."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from inference.remote.failures import UpstreamFailure
from inference.remote.members.member import Member
from inference.remote.members.member_pool import MemberPool

INTERVAL_S = 1.0
TIMEOUT_S = 2.0
PATH = "/prefix_events"

log = logging.getLogger(__name__)


async def watch_prefixes(pool: MemberPool) -> None:
    """A Watch of a pool. Members that say nothing of themselves are not asked."""
    last_numbers: dict[Member, int] = {}
    while True:
        await asyncio.sleep(INTERVAL_S)
        members = [each for each in pool.members if each.settings] if len(pool.members) > 1 else []
        numbers = await asyncio.gather(*(ask_prompts(each, last_numbers.get(each, 0)) for each in members))
        last_numbers = dict(zip(members, numbers, strict=True))


async def ask_prompts(member: Member, after: int) -> int:
    """Note the prompts that the server got after number `after`; returns the number of the last one.

    A server that does not say leaves this one with what it knows of its own requests.
    """
    url = f"{member.client.model.server.url}{PATH}?after={after}"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            last, prompts = read_events(await member.client.get_json(url))
    except (UpstreamFailure, TimeoutError, TypeError, KeyError) as failure:
        log.debug("event=no_prefix_events member=%s: %s", member.name, failure)
        return after
    member.load.note_prompts(prompts)
    return last


def read_events(document: Any) -> tuple[int, Sequence[Sequence[int]]]:
    """The last number and the prompts' hashes. Raises TypeError or KeyError for another form."""
    last, prompts = document["last"], document["prompts"]
    are_hashes = isinstance(prompts, list) and all(isinstance(each, list) for each in prompts)
    if type(last) is not int or not are_hashes or not all(type(h) is int for each in prompts for h in each):
        raise TypeError("the events have another form")
    return last, prompts
