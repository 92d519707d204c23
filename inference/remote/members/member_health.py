"""Asks servers that rest whether they are back, so that no request has to try them.

One that failed is asked after its rest. One that is down, or is shutting down, is asked each second: its rest
ends when it has restarted.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from inference.remote.detect import can_ask, detect
from inference.remote.members.agreement import disagreement_of
from inference.remote.members.member import Member
from inference.remote.members.member_pool import MemberPool

INTERVAL_S = 1.0

log = logging.getLogger(__name__)


async def watch_health(pool: MemberPool) -> None:
    """A Watch of a pool."""
    while True:
        await asyncio.sleep(INTERVAL_S)
        due = [
            each for each in pool.members if each.breaker.is_due(time.monotonic()) and can_ask(each.client)
        ]
        await asyncio.gather(*(check_health(each, pool.members) for each in due))


async def check_health(member: Member, members: Sequence[Member]) -> None:
    """Ask the server what it is: it takes requests again if it has rested, or was down, and answers.

    It goes on resting if it would answer differently from the model's other members.
    """
    breaker, detected = member.breaker, await detect(member.client)
    now = time.monotonic()
    if not detected.is_reachable:
        breaker.stay_down(now, detected.problem)
    elif problem := detected.problem or disagreement_of(member, detected, members):
        if breaker.has_rested(now):
            breaker.fail(now, problem)
    elif breaker.is_down or breaker.has_rested(now):
        breaker.restart(now) if breaker.is_down else breaker.succeed(now)
        log.info("event=member_returned member=%s", member.name)
