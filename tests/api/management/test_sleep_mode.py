"""vLLM's routes of sleep mode."""

from collections.abc import Collection
from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec.msgpack import Decoder

from api import create_app
from api.services import Services
from inference.errors import BadRequest, NotFound
from inference.link_messages import COUNT_DECODER, FLAG_DECODER, LENGTH_BYTES, read_message
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

KEY = {"Authorization": "Bearer secret"}


class FakeSleeper:
    """Notes the calls; wakes by two tags."""

    deepest_level, reclaimable_bytes = 2, 1 << 40

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.is_sleeping = False

    def sleep(self, level: int, mode: str) -> None:
        if level > 2:
            raise BadRequest("level", "must be one of 1, 2", level)
        self.is_sleeping = True
        self.calls.append((level, mode))

    def wake_up(self, tags: Collection[str] = ("weights", "kv_cache")) -> bool:
        self.calls.append(tuple(tags))
        self.is_sleeping = len(tags) < 2
        return not self.is_sleeping


@pytest.fixture
def sleeper() -> FakeSleeper:
    return FakeSleeper()


@pytest.fixture
def client(sleeper: FakeSleeper) -> FlaskClient:
    settings = ServerSettings(api_keys=("secret",))
    return create_app(make_models(FakeBackend()), settings, services=Services(sleeper=sleeper)).test_client()


def test_a_model_sleeps_and_wakes(client: FlaskClient, sleeper: FakeSleeper) -> None:
    assert client.post("/sleep", headers=KEY).json == {"status": "sleeping", "level": 1}
    assert client.post("/sleep?level=2&mode=wait", headers=KEY).json == {"status": "sleeping", "level": 2}
    assert client.get("/is_sleeping", headers=KEY).json == {"is_sleeping": True}
    half = client.post("/wake_up?tags=weights", headers=KEY)
    assert half.json == {"status": "sleeping", "tags": ["weights"]}
    assert client.post("/wake_up", headers=KEY).json == {"status": "awake", "tags": None}
    assert sleeper.calls == [(1, "abort"), (2, "wait"), ("weights",), ("weights", "kv_cache")]


def test_a_parent_lets_the_model_sleep_as_deeply_as_it_can(sleeper: FakeSleeper) -> None:
    settings = ServerSettings(has_link=True)
    child = create_app(make_models(FakeBackend()), settings, services=Services(sleeper=sleeper)).test_client()

    def call(path: str, decoder: Decoder[Any]) -> Any:
        return read_message(child.post(path).data[LENGTH_BYTES:], decoder)

    assert call("/link/reclaimable_bytes", COUNT_DECODER) == 1 << 40
    assert call("/link/sleep", FLAG_DECODER) and call("/link/wake_up", FLAG_DECODER)
    assert sleeper.calls == [(2, "wait"), ("weights", "kv_cache")]


def test_a_model_that_cannot_sleep_has_nothing_to_give_back() -> None:
    child = create_app(make_models(FakeBackend()), ServerSettings(has_link=True)).test_client()
    response = child.post("/link/reclaimable_bytes")
    assert read_message(response.data[LENGTH_BYTES:], COUNT_DECODER) == 0
    with pytest.raises(NotFound, match="on a CPU in one process, can sleep"):
        read_message(child.post("/link/sleep").data[LENGTH_BYTES:], FLAG_DECODER)


def test_the_routes_need_a_key(client: FlaskClient, sleeper: FakeSleeper) -> None:
    responses = [client.post("/sleep"), client.post("/wake_up"), client.get("/is_sleeping")]
    assert [response.status_code for response in responses] == [401] * 3
    assert not sleeper.calls


@pytest.mark.parametrize("level", ["3", "deep", "1" * 5000])
def test_an_unknown_level_is_refused(level: str, client: FlaskClient) -> None:
    response = client.post(f"/sleep?level={level}", headers=KEY)
    assert response.status_code == 400 and response.json is not None
    assert "level" in response.json["error"]["message"]


def test_a_sleeping_model_is_live_and_healthy_but_not_ready(client: FlaskClient) -> None:
    client.post("/sleep", headers=KEY)
    paths = ("/health/live", "/health", "/health/ready")
    assert [client.get(path).status_code for path in paths] == [200, 200, 503]


def test_other_models_do_not_sleep() -> None:
    client = create_app(make_models(FakeBackend()), ServerSettings()).test_client()
    response = client.post("/sleep")
    assert response.status_code == 404 and response.json is not None
    assert "POST /models/unload" in response.json["error"]["message"]
