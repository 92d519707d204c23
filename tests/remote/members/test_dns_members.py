"""A pool follows the addresses of a name, and servers that failed are asked whether they are back."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from inference.backend import Backend
from inference.events import Started, Token
from inference.metrics.upstream import UpstreamMetrics
from inference.remote.members import dns_members, member_health
from inference.remote.open import open_models
from inference.types import GenerationRequest
from settings.inference_server import BadServer, parse_server
from settings.model_list import parse_models
from tests.remote.conftest import CHAT
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, document, wait_until
from tests.remote.openai_chunks import chat_chunk, whole_answer

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def described(name: str) -> Callable[[Sent], Reply]:
    """An OpenAI server that answers with its own name."""

    def reply(sent: Sent) -> Reply:
        if sent.method == "POST":
            return whole_answer(name)
        return document({"data": [{"id": "up/model"}]} if sent.path == "/v1/models" else {}, 200)

    return reply


class Names:
    """A resolver whose addresses a test sets; None: it does not respond. num_lookups: of them so far."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] | None = addresses
        self.num_lookups = 0

    def wait_for_lookups(self) -> None:
        """Wait until what the addresses are now has been looked up, and something was done about it."""
        num_lookups = self.num_lookups
        wait_until(lambda: self.num_lookups >= num_lookups + 2)

    async def look_up(self, host: str, port: int) -> Sequence[str]:
        assert host == "replicas"
        self.num_lookups += 1
        if self.addresses is None:
            raise OSError
        return self.addresses


class Cluster:
    """Servers at the same port of several addresses, and a model of the name that they have."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.names = Names(ADDRESSES[0])
        self.upstreams = {address: FakeUpstream() for address in ADDRESSES}
        self.servers: list[asyncio.Server] = []
        self.registry = CollectorRegistry()
        for address, upstream in self.upstreams.items():
            upstream.reply = described(address)

    async def listen(self) -> None:
        port = 0
        for address, upstream in self.upstreams.items():
            server = await asyncio.start_server(upstream.serve, address, port)
            self.servers.append(server)
            port = upstream.port = server.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        return self.upstreams[ADDRESSES[0]].port

    def open(self) -> Backend:
        entry = {"base_model": "up/model", "members": [f"dns:http://replicas:{self.port}/v1"]}
        models = parse_models([entry]).remote
        backend = open_models(models, UpstreamMetrics(self.registry), self.names.look_up)[0].backend
        backend.attach(self.loop)
        return backend

    def close(self) -> None:
        for server in self.servers:
            self.loop.call_soon_threadsafe(server.close)


@pytest.fixture
def cluster(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(dns_members, "INTERVAL_S", 0.02)
    monkeypatch.setattr(member_health, "INTERVAL_S", 0.02)
    cluster = Cluster(loop)
    asyncio.run_coroutine_threadsafe(cluster.listen(), loop).result(60)
    yield cluster
    cluster.close()


@pytest.fixture
def backend(cluster: Cluster) -> Iterator[Backend]:
    backend = cluster.open()
    yield backend
    backend.close()


def text_of(backend: Backend) -> str:
    return "".join(each.text for each in backend.generate(GenerationRequest(CHAT)) if isinstance(each, Token))


def open_breakers(cluster: Cluster) -> dict[str, float]:
    """By the names of the members: 1 if the member gets no requests."""
    return {
        sample.labels["member"]: sample.value
        for metric in cluster.registry.collect()
        if metric.name == "hearth_upstream_breaker_open"
        for sample in metric.samples
    }


def test_servers_come_and_go_with_the_addresses_of_their_name(cluster: Cluster, backend: Backend) -> None:
    assert text_of(backend) == ADDRESSES[0]
    cluster.names.addresses = ADDRESSES[1:]
    wait_until(lambda: text_of(backend) == ADDRESSES[1])
    wait_until(lambda: text_of(backend) == ADDRESSES[2])
    wait_until(lambda: set(open_breakers(cluster)) == {"up/model-2", "up/model-3"})


def test_an_answer_of_a_server_that_leaves_is_whole(cluster: Cluster, backend: Backend) -> None:
    slow = Reply([chat_chunk({"content": "one"}), 0.3, *whole_answer(" two").steps])
    cluster.upstreams[ADDRESSES[0]].reply = slow
    stream = backend.generate(GenerationRequest(CHAT))
    started = next(iter(stream))
    assert isinstance(started, Started) and started.member == "up/model-1"
    cluster.names.addresses = ADDRESSES[1:2]
    wait_until(lambda: "up/model-1" not in open_breakers(cluster))
    assert "".join(each.text for each in stream if isinstance(each, Token)) == "one two"
    assert text_of(backend) == ADDRESSES[1]


@pytest.mark.parametrize("addresses", [None, ()])
def test_a_name_that_cannot_be_looked_up_keeps_its_servers(
    addresses: Sequence[str] | None, cluster: Cluster, backend: Backend
) -> None:
    cluster.names.addresses = addresses
    cluster.names.wait_for_lookups()
    assert text_of(backend) == ADDRESSES[0]


def test_the_last_server_stays_until_another_one_responds(cluster: Cluster, backend: Backend) -> None:
    cluster.upstreams[ADDRESSES[1]].reply = document({}, 503)
    cluster.names.addresses = ADDRESSES[1:2]
    cluster.names.wait_for_lookups()
    assert text_of(backend) == ADDRESSES[0]
    cluster.upstreams[ADDRESSES[1]].reply = described(ADDRESSES[1])
    wait_until(lambda: text_of(backend) == ADDRESSES[1])


def test_a_server_that_failed_returns_without_a_request_that_tries_it(
    cluster: Cluster, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.remote.members.breaker.FIRST_REST_S", 0.05)
    upstream = cluster.upstreams[ADDRESSES[0]]
    upstream.reply = document({}, 500)
    with pytest.raises(Exception, match="server"):
        text_of(backend)
    wait_until(lambda: bool(backend.unavailable_reason()))
    num_requests = len(upstream.bodies)
    upstream.reply = described("back")
    wait_until(lambda: not backend.unavailable_reason())
    assert len(upstream.bodies) == num_requests and text_of(backend) == "back"


@pytest.mark.parametrize(
    ("text", "kind", "url"),
    [
        ("dns:hearth:8000", "detect", "http://hearth:8000"),
        ("dns:vllm_chat:replicas:8000", "vllm", "http://replicas:8000/v1"),
        ("dns:http://replicas:8000", "detect", "http://replicas:8000"),
    ],
)
def test_every_form_of_a_name_is_read(text: str, kind: str, url: str) -> None:
    server = parse_server(text)
    assert (server.kind, server.url) == (kind, url) and server.dns_host in url


def test_a_certificate_names_no_address() -> None:
    with pytest.raises(BadServer, match="https"):
        parse_server("dns:https://replicas")
