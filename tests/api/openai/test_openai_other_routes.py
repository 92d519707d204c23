"""The other routes of OpenAI and vLLM: responses, embeddings, tokens, models, health."""

import base64
import struct
from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.errors import NotImplementedHere
from inference.events import CallDelta, Finished, Started, Token
from tests.api.openai.app_requests import RESPONSES, events, get_response, refusal
from tests.fakes.fake_backend import FakeBackend, embedding, say

EMBEDDINGS = "/v1/embeddings"
TEXT = ["output_item.added", "content_part.added", "output_text.delta"]
TEXT_DONE = ["output_text.done", "content_part.done", "output_item.done"]
CALL = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done"]


def names(got: list[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in got]


def test_a_response_is_streamed_as_its_events(client: FlaskClient) -> None:
    got = events(client)
    assert names(got) == ["created", "in_progress", *TEXT, "output_text.delta", *TEXT_DONE, "completed"]
    created, *_, completed = got
    assert (created["response"]["status"], created["response"]["output"]) == ("in_progress", [])
    (item,) = completed["response"]["output"]
    assert item["content"][0]["text"] == "Hello world"
    usage = completed["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 2, 5)
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}


def test_a_responses_call_is_an_item_of_its_own(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [
        Started(0, 3, 0),
        Token(0, 1, "Well"),
        CallDelta(0, 0, "call_1", "f", '{"a":', done=False),
        CallDelta(0, 0, "call_1", "f", " 1}", done=True),
        Finished(0, "stop", num_tokens=5),
    ]
    got = events(client)
    call = [*CALL[:2], *CALL[1:], "output_item.done"]
    assert names(got) == ["created", "in_progress", *TEXT, *TEXT_DONE, *call, "completed"]
    message, function = got[-1]["response"]["output"]
    assert (message["type"], function["type"]) == ("message", "function_call")
    assert (function["name"], function["arguments"]) == ("f", '{"a": 1}')
    assert function["call_id"] == "chatcmpl-tool-1"


def test_a_truncated_response_is_incomplete(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say("a", reason="length")
    got = get_response(client, RESPONSES)
    assert (got["status"], got["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert got["output"][0]["status"] == "incomplete"
    assert events(client)[-1]["type"] == "response.incomplete"


def test_an_empty_response_has_an_empty_message(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say()
    assert get_response(client, RESPONSES)["output"][0]["content"][0]["text"] == ""


def test_a_response_repeats_what_was_requested(client: FlaskClient) -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    got = get_response(
        client, RESPONSES, instructions="Be brief.", metadata={"a": "b"}, tools=[tool], temperature=0
    )
    assert (got["instructions"], got["metadata"], got["temperature"]) == ("Be brief.", {"a": "b"}, 0)
    assert got["tools"][0]["name"] == "f"
    assert (got["store"], got["previous_response_id"]) == (False, None)


@pytest.mark.parametrize("value", ["a b", [1, 2], ["a b", "c"], [[1, 2], [3]], ["a", [1]]])
def test_each_input_has_an_embedding(client: FlaskClient, value: Any) -> None:
    many = isinstance(value, list) and not isinstance(value[0], int)
    inputs = value if many else [value]
    got = client.post(EMBEDDINGS, json={"input": value}).get_json()
    assert [entry["index"] for entry in got["data"]] == list(range(len(inputs)))
    assert [entry["embedding"] for entry in got["data"]] == [list(embedding(each).vector) for each in inputs]
    assert got["usage"]["prompt_tokens"] == sum(embedding(each).num_tokens for each in inputs)


def test_embeddings_in_base64_are_little_endian_floats(client: FlaskClient) -> None:
    got = client.post(EMBEDDINGS, json={"input": "a", "encoding_format": "base64"}).get_json()
    vector = struct.unpack("<4f", base64.b64decode(got["data"][0]["embedding"]))
    assert vector == pytest.approx(embedding("a").vector)


def test_an_embeddings_input_may_be_truncated(client: FlaskClient, backend: FakeBackend) -> None:
    got = client.post(EMBEDDINGS, json={"input": "a b c", "truncate_prompt_tokens": 2}).get_json()
    assert got["data"][0]["embedding"] == list(embedding([1, 2]).vector)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": ""},
        {"input": []},
        {"input": ["a", ""]},
        {"input": "a", "dimensions": 2},
        {"input": "a", "encoding_format": "int8"},
        {"input": "a", "truncate_prompt_tokens": 0},
    ],
)
def test_a_wrong_input_is_refused(client: FlaskClient, fields: dict[str, Any]) -> None:
    response = client.post(EMBEDDINGS, json=fields)
    assert (response.status_code, response.get_json()["error_type"]) == (400, "validation")


def test_a_model_without_embeddings_does_not_support_them(client: FlaskClient, backend: FakeBackend) -> None:
    """A status of 5xx would make OpenAI's clients send the request again."""
    backend.error = NotImplementedHere("this model makes no embeddings")
    response = client.post(EMBEDDINGS, json={"input": "a"})
    message = "The model does not support Embeddings API: this model makes no embeddings"
    refusal(response, 400, message, "BadRequestError")


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/pooling", "Pooling"),
        ("/classify", "Classification"),
        ("/v1/score", "Score"),
        ("/v2/rerank", "Rerank (Score)"),
        ("/v1/audio/transcriptions", "Transcriptions"),
        ("/v1/audio/translations", "Translations"),
    ],
)
def test_a_route_for_another_kind_of_model_says_so(client: FlaskClient, path: str, api: str) -> None:
    for sent in ({"json": {"model": "x"}}, {"data": {"model": "x"}, "content_type": "multipart/form-data"}):
        refusal(client.post(path, **sent), 400, f"The model does not support {api} API", "BadRequestError")


def test_ids_are_returned_as_text(client: FlaskClient) -> None:
    assert client.post("/detokenize", json={"tokens": [1, 2]}).get_json() == {"prompt": "w1 w2"}


def test_token_strings_are_those_of_the_vocabulary(client: FlaskClient) -> None:
    got = client.post("/tokenize", json={"prompt": "a cat", "return_token_strs": True}).get_json()
    assert got == {"count": 2, "max_model_len": 128, "tokens": [0, 1], "token_strs": ["a", "Ġcat"]}
    assert client.post("/tokenize", json={"prompt": "a"}).get_json()["token_strs"] is None


def test_models_are_listed_at_the_path_of_llama_stacks_clients(client: FlaskClient) -> None:
    (card,) = client.get("/v1/openai/v1/models").get_json()["data"]
    assert card["id"] == "fake/model"
    assert client.get("/v1/openai/v1/models/fake/model").get_json() == card
    assert client.get("/v1/openai/v1/models/nope").get_json()["error"]["code"] == 404


def test_ping_reports_whether_the_server_is_ready(client: FlaskClient, backend: FakeBackend) -> None:
    for method in ("GET", "POST"):
        response = client.open("/ping", method=method)
        assert (response.status_code, response.data) == (200, b"")
    backend.unready_reason = "the model is broken"
    assert client.get("/ping").status_code == 503


def test_the_load_is_the_number_of_requests(client: FlaskClient) -> None:
    assert client.get("/load").get_json() == {"server_load": 0}
