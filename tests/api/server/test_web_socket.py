"""WebSockets on a real socket: handshakes, messages in turn, clients that leave or send too much."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import pytest

from api.server import web_socket
from tests.api.conftest import LiveServer, read_response, request, served
from tests.fakes.fake_backend import FakeBackend, say

Socket = aiohttp.ClientWebSocketResponse
Start = Callable[..., LiveServer]
ENDLESS = say(*["token "] * 10_000, pause_s=0.002)
HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with served(FakeBackend(say("a", "b"))) as live:
        yield live


def talk(server: LiveServer, script: Callable[[Socket], Awaitable[Any]], path: str = "/v1/responses") -> Any:
    """What `script` returns, run with a connection."""

    async def run() -> Any:
        url = f"ws://127.0.0.1:{server.port}{path}"
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as connection:
            return await script(connection)

    return asyncio.run(run())


async def respond(connection: Socket, **fields: Any) -> list[Any]:
    """Sends a message; its answer up to its last event."""
    await connection.send_json({"type": "response.create", "input": "hi", **fields})
    events = [await connection.receive_json(timeout=30)]
    while events[-1]["type"] not in ("response.completed", "error"):
        events.append(await connection.receive_json(timeout=30))
    return events


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/openai/v1/responses?x=1"])
def test_each_event_is_a_message(server: LiveServer, path: str) -> None:
    events = talk(server, respond, path)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert "".join(event.get("delta", "") for event in events) == "ab"
    assert events[0]["type"] == "response.created" and events[-1]["response"]["status"] == "completed"


def test_messages_are_answered_one_after_the_other(server: LiveServer) -> None:
    async def script(connection: Socket) -> list[Any]:
        await connection.send_str("no json")
        error = await connection.receive_json(timeout=30)
        assert (error["type"], error["status"]) == ("error", 400)
        for _ in range(3):
            await connection.send_json({"type": "response.create", "input": "hi"})
        ids = [await next_id(connection) for _ in range(3)]
        assert len(set(ids)) == 3
        return await respond(connection, previous_response_id=ids[-1])

    assert talk(server, script)[-1]["type"] == "response.completed"


async def next_id(connection: Socket) -> str:
    """The id of the next response that is complete."""
    while (event := await connection.receive_json(timeout=30))["type"] != "response.completed":
        pass
    return event["response"]["id"]


def test_a_client_that_leaves_cancels_its_answer(live: Start) -> None:
    server = live(FakeBackend(ENDLESS))

    async def script(connection: Socket) -> None:
        await connection.send_json({"type": "response.create", "input": "hi"})
        await connection.receive_json(timeout=30)

    talk(server, script)
    server.until(lambda: server.backend.streams and not server.backend.open_streams)


def test_a_message_that_is_too_large_ends_the_connection(
    live: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from api.server import serve

    monkeypatch.setattr(serve, "MAX_MESSAGE_BYTES", 1000)

    async def script(connection: Socket) -> Any:
        await connection.send_str("x" * 1001)
        return await connection.receive(timeout=30)

    end = talk(live(FakeBackend()), script)
    assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 1009)
    assert web_socket.MAX_MESSAGE_BYTES > 1000


def test_an_idle_connection_is_closed(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket, "IDLE_S", 0.2)
    end = talk(server, lambda connection: connection.receive(timeout=30))
    assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 1001)


@pytest.mark.parametrize("key", ["", "Authorization: Bearer wrong"])
def test_a_handshake_without_the_key_is_refused(live: Start, key: str) -> None:
    server = live(FakeBackend(), api_keys=("secret",))
    headers = (*HANDSHAKE, KEY, *filter(None, [key]))
    response = server.exchange(request("GET", "/v1/responses", b"", *headers))
    assert response.startswith(b"HTTP/1.1 401 ") and b'"AuthenticationError"' in response
    accepted = (*HANDSHAKE, KEY, "Authorization: Bearer secret")
    with server.connect(request("GET", "/v1/responses", b"", *accepted)) as connection:
        assert read_response(connection).startswith(b"HTTP/1.1 101 ")


def test_a_page_of_another_site_is_refused(server: LiveServer) -> None:
    headers = (*HANDSHAKE, KEY, "Origin: https://evil.example")
    response = server.exchange(request("GET", "/v1/responses", b"", *headers))
    assert response.startswith(b"HTTP/1.1 403 ")


def test_a_get_of_the_same_path_lists_stored_responses(server: LiveServer) -> None:
    response = server.exchange(request("GET", "/v1/responses"))
    assert response.startswith(b"HTTP/1.1 404 ") and b"STORE is off" in response


@pytest.mark.parametrize(("path", "headers"), [("/v1/models", (KEY,)), ("/v1/responses", ())])
def test_other_handshakes_are_no_websockets(server: LiveServer, path: str, headers: tuple[str, ...]) -> None:
    response = server.exchange(request("GET", path, b"", *HANDSHAKE, *headers))
    assert response.startswith(b"HTTP/1.1 200 " if path == "/v1/models" else b"HTTP/1.1 400 ")


def test_a_server_that_stops_closes_its_connections() -> None:
    async def run(server: LiveServer) -> Any:
        url = f"ws://127.0.0.1:{server.port}/v1/responses"
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as connection:
            await respond(connection)
            server.http_server.stop()
            return await connection.receive(timeout=30)

    with served(FakeBackend(say("a"))) as server:
        end = asyncio.run(run(server))
    assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 1012)
