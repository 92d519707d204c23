"""The routes of a model's process: only in a process that a server started, and every error is a message."""

import logging
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec.msgpack import Decoder

from api import create_app
from inference.errors import BadRequest, NotFound
from inference.events import Finished
from inference.link_messages import (
    CARD_DECODER,
    CARDS_DECODER,
    EMBEDDINGS_DECODER,
    ENCODED_TEXTS_DECODER,
    INFO_DECODER,
    LENGTH_BYTES,
    MEDIA_TYPE,
    TEXT_DECODER,
    LoadAdapterMessage,
    encode,
    encode_request,
    read_event,
    read_message,
)
from inference.remote.frames import FrameParser
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models, say


@pytest.fixture
def client() -> FlaskClient:
    models = make_models(FakeBackend(say("a", "b")))
    return create_app(models, ServerSettings(has_link=True)).test_client()


def test_an_answer_is_a_frame_for_each_event(client: FlaskClient) -> None:
    response = client.post("/link/generate", data=encode_request(GenerationRequest("hi")))
    assert (response.status_code, response.content_type) == (200, MEDIA_TYPE)
    events = [read_event(each.data) for each in FrameParser().feed(response.data)]
    assert "".join(getattr(event, "text", "") for event in events) == "ab"
    assert isinstance(events[-1], Finished)


def test_the_vectors_of_all_inputs_are_one_result(client: FlaskClient) -> None:
    response = client.post("/link/embed", data=encode(["a", [1, 2]]))
    assert len(read_message(response.data[LENGTH_BYTES:], EMBEDDINGS_DECODER)) == 2


def test_the_ids_of_all_texts_are_one_result(client: FlaskClient) -> None:
    response = client.post("/link/encode_texts", data=encode(["a b", "c"]))
    assert read_message(response.data[LENGTH_BYTES:], ENCODED_TEXTS_DECODER) == [(0, 1), (0,)]


def test_calls_are_logged_for_debugging_alone(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hearth.access"):
        for path in ("/link/info", "/v1/models"):
            client.open(path, method="POST" if "link" in path else "GET")
    assert [record.levelno for record in caplog.records] == [logging.DEBUG, logging.INFO]


def test_the_model_is_described(client: FlaskClient) -> None:
    response = client.post("/link/info")
    assert read_message(response.data[LENGTH_BYTES:], INFO_DECODER).context == FakeBackend().info().context


def test_adapters_are_loaded_listed_and_unloaded(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    backend = FakeBackend()
    backend.lora = FakeAdapters("poet")
    client = create_app(make_models(backend), ServerSettings(has_link=True)).test_client()

    def call(path: str, message: Any, decoder: Decoder[Any]) -> Any:
        data = encode(message)
        return read_message(client.post(path, data=data).data[LENGTH_BYTES:], decoder)

    message = LoadAdapterMessage("cook", str(tmp_path), "acme/cook", False)
    card = call("/link/load_adapter", message, CARD_DECODER)
    assert (card.name, card.source, card.rank) == ("cook", "acme/cook", 8)
    assert call("/link/adapter_folder", "cook", TEXT_DECODER) == str(tmp_path)
    call("/link/unload_adapter", "poet", TEXT_DECODER)
    assert call("/link/adapters", None, CARDS_DECODER) == (card,)
    with pytest.raises(NotFound, match="'poet' not found"):
        call("/link/unload_adapter", "poet", TEXT_DECODER)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x81\xa4kind\xa1\xff", encode({"kind": "x", "prompt": "", "options": {}})]
)
def test_what_is_no_request_is_refused_in_a_message(body: bytes, client: FlaskClient) -> None:
    response = client.post("/link/generate", data=body)
    assert response.status_code == 200
    with pytest.raises(BadRequest, match="is no message of the link"):
        read_event(response.data[LENGTH_BYTES:])


@pytest.mark.parametrize("host", ["127.0.0.1", "/run/own.sock"])
def test_a_server_that_a_user_started_has_no_such_routes(host: str) -> None:
    client = create_app(make_models(FakeBackend()), ServerSettings(host=host)).test_client()
    assert client.post("/link/info").status_code == 404
