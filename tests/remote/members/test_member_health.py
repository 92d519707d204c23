"""A server that was down gets requests as soon as it has restarted; one that only rests has to rest."""

import asyncio

import pytest

from inference.backend import Backend
from inference.errors import ServerError
from inference.remote.members import breaker, member_health
from inference.types import GenerationRequest, Message
from scripts.loopback import free_port
from tests.remote.conftest import OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document, wait_until
from tests.remote.openai_chunks import whole_answer

CHAT = (Message("user", "hi"),)
TURNED_AWAY = document({"error": {"message": "shutting down"}}, 503, **{"Retry-After": "60"})

FIRST_REST_S, BELOW_REST_S = 60.0, 50.0  # of a server that failed, and less


class Restartable:
    """An upstream on one port, which can be down: no other program gets the port meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.upstream = FakeUpstream()
        self.upstream.port = free_port()
        self.upstream.reply = self._reply
        self.completion = whole_answer("hi")
        self._loop = loop
        self.start()

    def start(self) -> None:
        async def listen() -> asyncio.Server:
            return await asyncio.start_server(self.upstream.serve, "127.0.0.1", self.upstream.port)

        self._server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(60)

    def stop(self) -> None:
        async def close() -> None:
            self._server.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(60)

    def _reply(self, sent: Sent) -> Reply:
        return document({"data": [{"id": "up/model"}]}) if sent.method == "GET" else self.completion


@pytest.fixture
def server(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> Restartable:
    monkeypatch.setattr(member_health, "INTERVAL_S", 0.02)
    monkeypatch.setattr(breaker, "FIRST_REST_S", FIRST_REST_S)
    return Restartable(loop)


@pytest.fixture
def backend(server: Restartable, open_upstream: OpenModel) -> Backend:
    return open_upstream(inference_server=f"vllm_chat:{server.upstream.url}/v1")


def is_answered(backend: Backend) -> bool:
    try:
        return bool(list(backend.generate(GenerationRequest(CHAT))))
    except ServerError:
        return False


def rests(backend: Backend) -> bool:
    return bool(backend.unavailable_reason())


def test_a_server_that_was_killed_gets_requests_once_it_has_restarted(
    server: Restartable, backend: Backend
) -> None:
    server.stop()
    assert not is_answered(backend) and rests(backend)
    server.start()
    wait_until(lambda: not rests(backend), BELOW_REST_S)
    assert is_answered(backend)


def test_a_server_that_turned_requests_away_gets_them_once_it_has_restarted(
    server: Restartable, backend: Backend
) -> None:
    server.completion = TURNED_AWAY
    assert not is_answered(backend) and rests(backend)
    server.stop()
    wait_until(lambda: "cannot be reached" in backend.unavailable_reason(), BELOW_REST_S)
    server.completion = whole_answer("hi")
    server.start()
    wait_until(lambda: not rests(backend), BELOW_REST_S)
    assert is_answered(backend)


def test_a_server_that_turned_requests_away_and_did_not_restart_rests(
    server: Restartable, backend: Backend
) -> None:
    server.completion = TURNED_AWAY
    assert not is_answered(backend)
    wait_until(lambda: len(server.upstream.sent) - len(server.upstream.bodies) >= 3, BELOW_REST_S)
    assert rests(backend)


@pytest.mark.parametrize("number", [0, 1])
def test_a_request_tries_each_server_that_was_down(
    number: int,
    loop: asyncio.AbstractEventLoop,
    open_upstream: OpenModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(member_health, "INTERVAL_S", 60.0)
    servers = [Restartable(loop), Restartable(loop)]
    first, second = (f"vllm_chat:{server.upstream.url}/v1" for server in servers)
    backend = open_upstream(inference_server=first, members=[second])
    for server in servers:
        server.stop()
    while not rests(backend):
        assert not is_answered(backend)
    servers[number].start()
    assert is_answered(backend), "nothing has asked whether it is back"


def test_a_server_that_is_lost_while_it_is_idle_is_known_to_be(
    server: Restartable, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_health, "IDLE_S", 0.05)
    assert is_answered(backend) and not rests(backend)
    server.stop()
    wait_until(lambda: rests(backend), BELOW_REST_S)
    server.start()
    wait_until(lambda: is_answered(backend), BELOW_REST_S)
