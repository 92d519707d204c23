"""Asks servers that rest whether they are back, so that no request has to try them.

One that failed is asked after its rest. One that is down, or is shutting down, is asked each second: its rest
ends when it has restarted. An idle one is asked now and then, so that its loss is known before a request.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from inference.remote.detect import can_ask, detect, origin
from inference.remote.failures import UpstreamFailure
from inference.remote.members.agreement import disagreement_of
from inference.remote.members.member import Member
from inference.remote.members.member_pool import MemberPool

INTERVAL_S = 1.0
IDLE_S = 30.0  # without an answer or a question
IDLE_PATH = "/health"  # any response to it means that there is a server

log = logging.getLogger(__name__)


async def watch_health(pool: MemberPool) -> None:
    """A Watch of a pool."""
    while True:
        await asyncio.sleep(INTERVAL_S)
        due = [
            each for each in pool.members if each.breaker.is_due(time.monotonic()) and can_ask(each.client)
        ]
        idle = [each for each in pool.members if each.idle_s(time.monotonic()) >= IDLE_S]
        await asyncio.gather(*(check_health(each, pool.members) for each in due), *map(check_idle, idle))


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


async def check_idle(member: Member) -> None:
    """Ask a server that has nothing to do whether it is there. What it says does not count."""
    member.last_used_at = time.monotonic()
    url = origin(member.client.model.server.url) + IDLE_PATH
    with suppress(TimeoutError):
        async with asyncio.timeout(member.client.model.timeouts.probe):
            try:
                await member.client.get_description(url)
            except UpstreamFailure as failure:
                if failure.outcome == "unreachable":
                    member.breaker.stay_down(time.monotonic(), failure.error.message)
                    log.warning("event=member_lost member=%s", member.name)
