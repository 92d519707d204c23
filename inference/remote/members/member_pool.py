"""The servers of one model, as they come and go.

Running answers keep a server that has left: its connections are closed behind the last of them.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from inference.metrics.upstream import UpstreamMetrics
from inference.remote.members.agreement import watch_starts
from inference.remote.members.member import Member

Watch = Callable[["MemberPool"], Coroutine[Any, Any, None]]  # changes the pool, without an end

log = logging.getLogger(__name__)


class MemberPool:
    """The servers of a model. There is always one.

    members  in their order. The list changes on the event loop, and a running request follows it
    watches  what changes the pool while the model is served
    """

    def __init__(
        self,
        model: str,
        members: Sequence[Member],
        metrics: UpstreamMetrics,
        watches: Sequence[Watch] = (),
    ) -> None:
        self.members: list[Member] = []
        self._model = model
        self._metrics = metrics
        self._watches = watches
        self._tasks: list[asyncio.Task[None]] = []
        for member in members:
            self.add(member)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to watch."""
        loop.call_soon_threadsafe(self._begin)

    def add(self, member: Member) -> None:
        self.members.append(member)
        watch_starts(member, self.members)
        self._metrics.watch_breaker(
            self._model, member.name, lambda: member.breaker.is_open(time.monotonic())
        )

    async def remove(self, member: Member) -> bool:
        """Send no new requests to the server. Returns whether it has left: the last server stays."""
        if len(self.members) == 1:
            return False
        self.members.remove(member)
        self._metrics.forget_breaker(self._model, member.name)
        await member.retire()
        return True

    def unavailable_reason(self) -> str:
        """Why no server takes requests; empty: one does."""
        now = time.monotonic()
        if all(member.breaker.is_open(now) for member in self.members):
            return self.members[0].breaker.problem
        return ""

    def first_available(self, members: Sequence[Member]) -> Member:
        """The first of these servers that takes requests; else the first."""
        now = time.monotonic()
        return min(members, key=lambda member: member.breaker.is_open(now))

    async def close(self) -> None:
        """Close all connections."""
        with suppress(RuntimeError):  # the loop has ended, and its tasks with it
            for task in self._tasks:
                task.cancel()
        for member in self.members:
            await member.close()

    def _begin(self) -> None:
        self._tasks = [asyncio.ensure_future(log_failure(watch(self))) for watch in self._watches]


async def log_failure(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        log.exception("event=watch_failed")
