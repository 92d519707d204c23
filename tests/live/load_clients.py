"""Hundreds of clients, a connection each, that read answers or disconnect; the server's gauges later."""

import asyncio
import json
import random
from typing import Any

import requests

from tests.servers.serving import ServerProcess

LEEWAY = 4  # descriptors that may be open for other reasons; a leak would show a thousand

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def send_request(port: int, path: str, body: dict[str, Any]) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return reader, writer


async def fetch(port: int, path: str, body: dict[str, Any]) -> bytes:
    reader, writer = await send_request(port, path, body)
    data = await reader.read()
    writer.close()
    return data


async def leave(port: int, path: str, body: dict[str, Any], chance: random.Random) -> None:
    """Sends a request and disconnects at a random moment in a random way."""
    reader, writer = await send_request(port, path, body)
    try:
        await asyncio.wait_for(reader.read(chance.choice((1, 500, 5000))), chance.random() * 0.3)
    except TimeoutError:
        pass
    if chance.random() < 0.5:
        writer.transport.abort()
    writer.close()


def busy(server: ServerProcess) -> dict[str, float]:
    """The gauges of running and waiting sequences that are not back to zero."""
    lines = requests.get(server.url + "/metrics", timeout=60).text.splitlines()
    gauges = dict(
        line.split(" ", 1) for line in lines if line.startswith(("hearth_running", "hearth_waiting"))
    )
    assert gauges, "the metrics say nothing about sequences"
    return {name: float(value) for name, value in gauges.items() if float(value)}
