"""Replicas that this server has placed: reached over the link; new, lost, full and draining ones."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry

from inference.backend import Backend
from inference.backend_info import ModelInfo
from inference.errors import BadRequest, Overloaded, ServerError, Unavailable
from inference.events import Event, Finished, Started, Token
from inference.link_messages import MEDIA_TYPE, decode_request, error_frame, event_frame
from inference.metrics.upstream import UpstreamMetrics
from inference.remote import open as opening
from inference.remote.members.listed_members import ServerList
from inference.remote.open import open_replicas
from inference.types import GenerationRequest
from settings.inference_server import InferenceServer, bearer
from settings.remote_model import RemoteModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, Step, running_loop, start, wait_until

TEXTS = ("The ", "capital", " is", " Paris")
TOKENS = [Token(0, 5 + number, text) for number, text in enumerate(TEXTS)]
REPORTED = ModelInfo("m", 2048, 100, 1, details={"dtype": "float32"})
REQUEST = GenerationRequest("Where?")


class Draining(Unavailable):
    """As a replica reports it while it shuts down."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down")
        self.retry_after = 9.0


def frames(events: Sequence[Event], *further: Step) -> Reply:
    return Reply([*map(event_frame, events), *further], content_type=MEDIA_TYPE)


def in_chunks(events: Sequence[Event]) -> Reply:
    """As a server sends them, with an end that is known: then it waits until its client leaves."""
    chunks = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in map(event_frame, events)]
    return Reply([*chunks, "wait"], content_type=MEDIA_TYPE, headers={"Transfer-Encoding": "chunked"})


def refusal(error: ServerError) -> Reply:
    return Reply([error_frame(error)], content_type=MEDIA_TYPE)


WHOLE_ANSWER = frames([Started(0, 3, 0), *TOKENS, Finished(0, "stop", num_tokens=4)])


class Cluster:
    """Three fake replicas, and the list of those that run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.upstreams = [FakeUpstream() for _ in range(3)]
        self.servers = [start(upstream, loop) for upstream in self.upstreams]
        self.live, self.lost = [0, 1], [2]
        self.bodies: list[GenerationRequest] = []

    def server(self, number: int) -> InferenceServer:
        return InferenceServer("link", self.upstreams[number].url, headers=bearer("secret"))

    async def list_servers(self) -> ServerList:
        servers = [self.server(number) for number in self.live]
        return ServerList(servers, frozenset(self.upstreams[number].url for number in self.lost))

    def reply_in_turn(self, *replies: Reply) -> None:
        """The replies in turn, whichever replica is asked; the last one repeats."""
        waiting = list(replies)

        def reply(sent: Sent) -> Reply:
            self.bodies.append(decode_request(sent.body))
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

        for upstream in self.upstreams:
            upstream.reply = reply

    def open(self) -> Backend:
        model = RemoteModel("m", "m", self.server(0))
        servers, metrics = [self.server(number) for number in self.live], UpstreamMetrics(CollectorRegistry())
        backend = open_replicas(model, servers, self.list_servers, REPORTED, metrics)
        backend.attach(self.loop)
        return backend


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with running_loop() as loop:
        yield loop


@pytest.fixture
def cluster(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(opening, "REPLICAS_INTERVAL_S", 0.02)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing listens there
    cluster = Cluster(loop)
    yield cluster
    for server in cluster.servers:
        loop.call_soon_threadsafe(server.close)


@pytest.fixture
def backend(cluster: Cluster) -> Iterator[Backend]:
    backend = cluster.open()
    yield backend
    backend.close()


def text_of(events: Iterator[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def test_a_request_reaches_a_replica_with_the_key_and_by_no_proxy(cluster: Cluster, backend: Backend) -> None:
    cluster.reply_in_turn(WHOLE_ANSWER)
    assert text_of(iter(backend.generate(REQUEST))) == "".join(TEXTS)
    (sent,) = [sent for upstream in cluster.upstreams for sent in upstream.sent]
    assert (sent.path, sent.headers["authorization"]) == ("/link/generate", "Bearer secret")


def test_a_model_is_described_as_a_replica_does(backend: Backend) -> None:
    info = backend.info()
    assert (info.context, info.details) == (2048, {"dtype": "float32", "server": "replicas", "members": "2"})


def test_the_answer_of_a_lost_replica_goes_on_at_another_one(cluster: Cluster, backend: Backend) -> None:
    cluster.reply_in_turn(in_chunks([Started(0, 3, 0), *TOKENS[:2]]), WHOLE_ANSWER)
    events = iter(backend.generate(REQUEST))
    started, *_ = itertools.islice(events, 3)
    assert isinstance(started, Started)
    first = ("m-1", "m-2").index(started.member)
    cluster.live, cluster.lost = [1 - first], [first]
    assert text_of(events) == "".join(TEXTS[2:])
    assert [body.output_token_ids for body in cluster.bodies] == [(), (5, 6)]


def test_the_answer_of_a_replica_that_leaves_ends_there(cluster: Cluster, backend: Backend) -> None:
    slow = [*map(event_frame, [Started(0, 3, 0), *TOKENS]), 0.2, event_frame(Finished(0, "stop"))]
    cluster.reply_in_turn(Reply(slow, content_type=MEDIA_TYPE))
    events = iter(backend.generate(REQUEST))
    started = next(events)
    assert isinstance(started, Started)
    cluster.live = [("m-2", "m-1").index(started.member)]
    assert text_of(events) == "".join(TEXTS) and len(cluster.bodies) == 1


def test_a_new_replica_gets_requests(cluster: Cluster, backend: Backend) -> None:
    cluster.reply_in_turn(WHOLE_ANSWER)
    cluster.live, cluster.lost = [2], []
    wait_until(lambda: bool(text_of(iter(backend.generate(REQUEST))) and cluster.upstreams[2].sent))


@pytest.mark.parametrize("error", [Overloaded(9), Draining(), Unavailable("the engine has stopped")])
def test_another_replica_answers_for_one_that_cannot(
    error: ServerError, cluster: Cluster, backend: Backend
) -> None:
    cluster.reply_in_turn(refusal(error), WHOLE_ANSWER)
    assert text_of(iter(backend.generate(REQUEST))) == "".join(TEXTS)
    assert len({upstream.port for upstream in cluster.upstreams if upstream.sent}) == 2


def test_an_answer_goes_on_where_a_replica_drains_too_long(cluster: Cluster, backend: Backend) -> None:
    abort = error_frame(Unavailable("the answer ends here"))
    cluster.reply_in_turn(frames([Started(0, 3, 0), *TOKENS[:3]], 0.05, abort), WHOLE_ANSWER)
    assert text_of(iter(backend.generate(REQUEST))) == "".join(TEXTS)


def test_a_bad_request_is_refused_once(cluster: Cluster, backend: Backend) -> None:
    cluster.reply_in_turn(refusal(BadRequest("top_p", "must be above 0")))
    with pytest.raises(BadRequest, match="top_p must be above 0"):
        list(backend.generate(REQUEST))
    assert len(cluster.bodies) == 1
