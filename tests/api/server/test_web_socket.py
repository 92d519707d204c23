"""WebSockets on a real socket: handshakes, messages in turn, clients that leave or send too much."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import pytest

from api.server import serve, web_socket, web_socket_protocol
from tests.api.conftest import LiveServer, read, read_response, request, served
from tests.fakes.fake_backend import FakeBackend, say

Socket = aiohttp.ClientWebSocketResponse
Start = Callable[..., LiveServer]
ENDLESS = say(*["token "] * 10_000, pause_s=0.002)
HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
CONTINUATION, TEXT, PING = 0, 1, 9  # opcodes of frames; RFC 6455, section 5.2
MASKED = 0x80


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
    monkeypatch.setattr(serve, "MAX_MESSAGE_BYTES", 1000)

    async def script(connection: Socket) -> Any:
        await connection.send_str("x" * 1001)
        return await connection.receive(timeout=30)

    end = talk(live(FakeBackend()), script)
    assert (end.type, end.data) == (aiohttp.WSMsgType.CLOSE, 1009)
    assert web_socket_protocol.MAX_MESSAGE_BYTES > 1000


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


def open_socket(server: LiveServer) -> socket.socket:
    """A raw connection after its handshake."""
    connection = server.connect(request("GET", "/v1/responses", b"", *HANDSHAKE, KEY))
    assert read_response(connection).startswith(b"HTTP/1.1 101 ")
    return connection


def frame(data: bytes, opcode: int = TEXT, is_last: bool = True) -> bytes:
    """A client's frame, masked with zeros."""
    if len(data) < 126:
        length = bytes([MASKED | len(data)])
    else:
        code, num_bytes = (126, 2) if len(data) < 1 << 16 else (127, 8)
        length = bytes([MASKED | code]) + len(data).to_bytes(num_bytes, "big")
    return bytes([opcode | 0x80 * is_last]) + length + bytes(4) + data


CREATE = frame(b'{"type": "response.create", "input": "hi"}')


@pytest.mark.parametrize("num_messages", [2, 3, 9])
def test_a_client_that_leaves_behind_further_messages_cancels_its_answer(
    live: Start, num_messages: int
) -> None:
    server = live(FakeBackend(ENDLESS))
    with open_socket(server) as connection:
        connection.sendall(CREATE * num_messages)
        read(connection, b"output_text.delta")
    server.until(lambda: not server.backend.open_streams)
    (stream,) = server.backend.streams
    assert stream.script_steps, "it has not been played to its end"


def test_a_stream_logs_no_error_while_its_connection_closes(
    live: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = live(FakeBackend(ENDLESS))
    with open_socket(server) as connection:
        (protocol,) = server.http_server.server.server_state.connections
        connection.sendall(CREATE)
        read(connection, b"output_text.delta")
        protocol.close_sent = True  # and what is sent fills the buffer
        (stream,) = server.backend.streams
        num_steps = len(stream.script_steps)
        server.until(lambda: len(stream.script_steps) < num_steps - 10)
    server.until(lambda: not server.backend.open_streams)
    assert not caplog.records


def test_a_message_that_stops_arriving_ends_the_connection(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_socket_protocol, "MESSAGE_IDLE_S", 0.1)
    with open_socket(server) as connection:
        connection.sendall(frame(b"{", is_last=False))
        assert b"\x03\xf0the message arrives too slowly: 1 bytes" in read(connection)


def test_a_message_that_waits_behind_others_has_time(live: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket_protocol, "MESSAGE_IDLE_S", 0.05)
    server = live(FakeBackend(ENDLESS))
    with open_socket(server) as connection:
        (protocol,) = server.http_server.server.server_state.connections
        connection.sendall(CREATE * 2 + frame(b"{", is_last=False))
        read(connection, b"output_text.delta")
        server.until(lambda: protocol.message_timer)
        first_time = protocol.started_at
        server.until(lambda: protocol.started_at > first_time)
        assert protocol.message_timer and not protocol.close_sent


def test_messages_that_arrive_are_held_within_the_limit_of_all_bodies(live: Start) -> None:
    server = live(FakeBackend(say("a")))
    held_bodies = server.http_server.bridge.held_bodies
    held_bodies.max_bytes = 300_000
    first_frame = frame(b'{"type": "response.create", "input": "' + b"x" * 200_000, is_last=False)
    with open_socket(server) as first, open_socket(server) as second:
        first.sendall(first_frame)
        server.until(lambda: held_bodies.num_bytes > 200_000)
        second.sendall(first_frame)
        assert b"\x03\xf5the server is busy" in read(second)
        first.sendall(frame(b'"}', CONTINUATION))
        read(first, b"response.completed")
        assert held_bodies.num_bytes == 0
        first.sendall(first_frame)
    server.until(lambda: held_bodies.num_bytes == 0 and not held_bodies.large)


def test_a_client_that_does_not_read_gets_no_further_pongs(live: Start) -> None:
    server = live(FakeBackend(say("a")))
    with open_socket(server) as connection:
        (protocol,) = server.http_server.server.server_state.connections
        server.http_server.loop.call_soon_threadsafe(protocol.pause_writing)
        server.until(lambda: not protocol.writable.is_set())
        connection.sendall(frame(b"unread", PING) * 1000 + CREATE)
        server.until(lambda: server.backend.requests)
        server.http_server.loop.call_soon_threadsafe(protocol.resume_writing)
        assert b"unread" not in read(connection, b"response.completed")
        connection.sendall(frame(b"ping", PING))
        assert read(connection, b"ping")


@pytest.mark.parametrize("num_messages", [1, 2])
def test_a_pong_that_waits_behind_a_message_ends_no_answer(live: Start, num_messages: int) -> None:
    server = live(FakeBackend(ENDLESS))
    with open_socket(server) as connection:
        (protocol,) = server.http_server.server.server_state.connections
        connection.sendall(CREATE * num_messages)
        read(connection, b"output_text.delta")
        server.until(lambda: protocol.read_paused == (num_messages > 1))
        server.http_server.loop.call_soon_threadsafe(protocol.keepalive_timeout)
        if num_messages > 1:
            server.until(lambda: protocol.pong_timer)
            assert read(connection, b"output_text.delta") and not protocol.close_sent
        else:
            assert b"keepalive ping timeout" in read(connection)


@pytest.mark.parametrize("header", ["Sec-WebSocket-Protocol: \xe9", "Sec-WebSocket-Extensions: \xe9"])
def test_a_handshake_with_words_beyond_ascii_is_refused(
    server: LiveServer, caplog: pytest.LogCaptureFixture, header: str
) -> None:
    response = server.exchange(request("GET", "/v1/responses", b"", *HANDSHAKE, KEY, header))
    assert response.startswith(b"HTTP/1.1 400 ") and not caplog.records
    server.until(lambda: not server.http_server.server.server_state.connections)
