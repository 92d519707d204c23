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

from inference.remote.members.listed_members import ListedMembers, OpenAt, ServerList
from inference.remote.members.member import Member
from settings.inference_server import BadServer, InferenceServer

INTERVAL_S = 10.0

LookUp = Callable[[str, int], Awaitable[Sequence[str]]]  # the addresses of a host; raises OSError

log = logging.getLogger(__name__)


def watch_name(
    name: InferenceServer, members: Mapping[str, Member], open_at: OpenAt, look_up: LookUp
) -> ListedMembers:
    """What watches the addresses of a name: a server with a dns_host, and its members by address."""

    async def list_servers() -> ServerList:
        return ServerList(await servers_behind(name, look_up))

    return ListedMembers(list_servers, members, open_at, INTERVAL_S)


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
