"""The servers behind a name of DNS: one at each of its addresses, which is looked up again and again.

A name that cannot be looked up keeps its servers, and a new address gets requests once its server responds.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from inference.remote.member import Member
from inference.remote.member_pool import MemberPool
from settings.inference_server import BadServer, InferenceServer

INTERVAL_S = 10.0

LookUp = Callable[[str, int], Awaitable[Sequence[str]]]  # the addresses of a host; raises OSError
OpenAt = Callable[[InferenceServer], Awaitable[Member | None]]

log = logging.getLogger(__name__)


class DnsMembers:
    """Watches the addresses of a name.

    name     a server with a dns_host
    members  by address: those that it had at the start
    open_at  opens the model at a server; None: it does not respond
    """

    def __init__(
        self,
        name: InferenceServer,
        members: Mapping[str, Member],
        open_at: OpenAt,
        look_up: LookUp,
    ) -> None:
        self._name = name
        self._members = dict(members)
        self._open_at = open_at
        self._look_up = look_up

    async def watch(self, pool: MemberPool) -> None:
        """A Watch of a pool."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.refresh(pool)

    async def refresh(self, pool: MemberPool) -> None:
        """Add the servers at new addresses, then remove those whose addresses are no longer listed."""
        servers = await servers_behind(self._name, self._look_up)
        if not servers:
            return
        for server in servers:
            if server.url not in self._members and (member := await self._open_at(server)):
                self._members[server.url] = member
                pool.add(member)
                log.info("event=member_added member=%s", member.name)
        for url in self._members.keys() - {server.url for server in servers}:
            if await pool.remove(self._members[url]):
                log.info("event=member_removed member=%s", self._members.pop(url).name)


def name_of(server: InferenceServer) -> InferenceServer:
    """The server whose url has the dns_host, for a server at one of its addresses."""
    address = urlsplit(server.url)
    host = f"[{server.dns_host}]" if ":" in server.dns_host else server.dns_host
    netloc = f"{host}:{address.port}" if address.port else host
    return replace(server, url=address._replace(netloc=netloc).geturl())


async def servers_behind(name: InferenceServer, look_up: LookUp) -> list[InferenceServer]:
    """The server at each address of name.dns_host; none if it cannot be looked up."""
    address = urlsplit(name.url)
    port = address.port or 80
    try:
        hosts = await look_up(name.dns_host, port)
    except OSError as error:
        log.warning("event=lookup_failed: %s", error.strerror or type(error).__name__)
        return []
    servers = []
    for host in hosts:
        netloc = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        with suppress(BadServer):  # an address that no model runs at
            servers.append(replace(name, url=address._replace(netloc=netloc).geturl()))
    return servers


async def look_up_host(host: str, port: int) -> list[str]:
    """The addresses of a host, in order. Raises OSError."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return sorted({str(info[4][0]) for info in infos})
