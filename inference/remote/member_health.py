"""Asks servers that have rested after failures whether they are back, so that no request has to try them."""

import asyncio
import logging
import time

from inference.remote.detect import detect
from inference.remote.member import Member
from inference.remote.member_pool import MemberPool

INTERVAL_S = 1.0

log = logging.getLogger(__name__)


async def watch_health(pool: MemberPool) -> None:
    """A Watch of a pool."""
    while True:
        await asyncio.sleep(INTERVAL_S)
        due = [member for member in pool.members if member.breaker.is_due(time.monotonic())]
        await asyncio.gather(*map(check_health, due))


async def check_health(member: Member) -> None:
    """Ask the server what it is: it takes requests again if it answers, else it rests again."""
    problem = (await detect(member.client)).problem
    if problem:
        member.breaker.fail(time.monotonic(), problem)
    else:
        member.breaker.succeed(time.monotonic())
        log.info("event=member_returned member=%s", member.name)
