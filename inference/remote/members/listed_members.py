"""The servers of a list that changes while the model is served: new ones join the pool, others leave it.

Where the list comes from is known elsewhere: DNS, or the replicas of a cluster.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from inference.remote.members.member import Member
from inference.remote.members.member_pool import MemberPool
from settings.inference_server import InferenceServer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerList:
    """What a list says at one time.

    servers    those that take requests; empty: the list is not known, and all servers stay
    lost_urls  of servers that will not end their answers: these go on elsewhere at once
    """

    servers: Sequence[InferenceServer] = ()
    lost_urls: frozenset[str] = frozenset()


ListServers = Callable[[], Awaitable[ServerList]]
OpenAt = Callable[[InferenceServer], Awaitable[Member | None]]


class ListedMembers:
    """Watches a list of servers.

    members  by address: those that it had at the start
    open_at  opens the model at a server; None: it does not respond
    """

    def __init__(
        self, list_servers: ListServers, members: Mapping[str, Member], open_at: OpenAt, interval_s: float
    ) -> None:
        self._list_servers = list_servers
        self._members = dict(members)
        self._open_at = open_at
        self._interval_s = interval_s

    async def watch(self, pool: MemberPool) -> None:
        """A Watch of a pool."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.refresh(pool)

    async def refresh(self, pool: MemberPool) -> None:
        """Add the servers that are new in the list, then remove those that it has no more."""
        listing = await self._list_servers()
        for server in listing.servers:
            if server.url not in self._members and (member := await self._open_at(server)):
                self._members[server.url] = member
                pool.add(member)
                log.info("event=member_added member=%s", member.name)
        listed = {server.url for server in listing.servers}
        for url in self._members.keys() - listed if listed else ():
            if not await pool.remove(self._members[url]):
                continue
            member = self._members.pop(url)
            log.info("event=member_removed member=%s", member.name)
            if url in listing.lost_urls:
                member.lose()
