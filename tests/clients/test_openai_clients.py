"""OpenAI's own client, of both ages, and LangChain's, against our server: what their users get is right."""

import json
from typing import Any

import pytest
import requests

from tests.clients.environments import driven

pytestmark = pytest.mark.slow

ANSWER = "The capital of France is Paris."
OPENAIS = ["openai-1", "openai-3"]
ARGUMENTS = {"city": "Paris"}


def drive(environment: str, url: str, model: str) -> dict[str, Any]:
    """What each probe of the environment's driver got."""
    return driven(environment, f"drive_{environment.split('-')[0]}.py", f"{url}/v1", model)


@pytest.fixture(params=OPENAIS, scope="module")
def release(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def got(release: str, scripted: str) -> dict[str, Any]:
    return drive(release, scripted, "fake/model")


@pytest.fixture
def demo(release: str, server: str) -> dict[str, Any]:
    return drive(release, server, "models/demo")


@pytest.fixture
def chained(scripted: str) -> dict[str, Any]:
    return drive("langchain-openai", scripted, "fake/model")


def only(completion: dict[str, Any]) -> dict[str, Any]:
    (choice,) = completion["choices"]
    return choice


def called(message: dict[str, Any]) -> tuple[str, Any]:
    (call,) = message["tool_calls"]
    return call["function"]["name"], json.loads(call["function"]["arguments"])


# OpenAI's client ---------------------------------------------------------------------------------------


def test_a_whole_chat_is_read(got: dict[str, Any]) -> None:
    choice = only(got["chat"])
    assert (choice["message"]["role"], choice["message"]["content"]) == ("assistant", ANSWER)
    assert (choice["finish_reason"], got["chat"]["usage"]["completion_tokens"]) == ("stop", 7)


def test_a_chats_stream_is_read_and_its_usage(got: dict[str, Any]) -> None:
    *chunks, last = got["chat_stream"]
    assert "".join(only(chunk)["delta"]["content"] for chunk in chunks) == ANSWER
    assert only(chunks[0])["delta"]["role"] == "assistant"
    assert only(chunks[-1])["finish_reason"] == "stop"
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)


def test_the_client_joins_a_stream_to_the_whole_chat(got: dict[str, Any]) -> None:
    message = only(got["chat_joined"]["completion"])["message"]
    assert (message["role"], message["content"]) == ("assistant", ANSWER)
    assert got["chat_joined"]["kinds"][-1] == "content.done"


def test_logprobs_are_read_whole_and_streamed(got: dict[str, Any]) -> None:
    whole = only(got["chat_scored"])["logprobs"]["content"]
    assert [entry["token"] for entry in whole] == ["The", " capital"]
    assert [other["token"] for other in whole[0]["top_logprobs"]] == ["The", " other"]
    assert bytes(whole[1]["bytes"]) == b" capital"
    streamed = [only(chunk)["logprobs"] for chunk in got["chat_scored_stream"]]
    assert [entry for logprobs in streamed if logprobs for entry in logprobs["content"]] == whole


def test_a_tools_call_is_read_whole_and_streamed(got: dict[str, Any]) -> None:
    whole = only(got["chat_tools"])
    assert called(whole["message"]) == ("get_weather", ARGUMENTS)
    assert whole["finish_reason"] == "tool_calls"
    joined = only(got["chat_tools_joined"]["completion"])
    assert called(joined["message"]) == ("get_weather", ARGUMENTS)
    assert joined["message"]["tool_calls"][0]["type"] == "function"
    assert joined["finish_reason"] == "tool_calls"
    deltas = [call for chunk in got["chat_tools_stream"] for call in only(chunk)["delta"]["tool_calls"] or []]
    assert [call["function"]["name"] for call in deltas] == ["get_weather", None, None]


def test_a_demanded_tools_call_ends_as_openais_does(got: dict[str, Any]) -> None:
    assert only(got["chat_required"])["finish_reason"] == "tool_calls"
    assert only(got["chat_named"])["finish_reason"] == "stop"
    assert called(only(got["chat_named"])["message"]) == ("get_weather", ARGUMENTS)


def test_an_answer_is_parsed_by_its_schema(got: dict[str, Any]) -> None:
    assert only(got["chat_parsed"])["message"]["parsed"] == {"capital": "Paris"}
    assert got["response_parsed"] == {"capital": "Paris"}


def test_completions_are_read_whole_streamed_and_scored(got: dict[str, Any]) -> None:
    assert only(got["completion"])["text"] == ANSWER
    assert "".join(only(chunk)["text"] for chunk in got["completion_stream"]) == ANSWER
    logprobs = only(got["completion_scored"])["logprobs"]
    assert (logprobs["tokens"], logprobs["text_offset"]) == (["The", " capital"], [0, 3])
    assert logprobs["top_logprobs"][0] == {"The": -0.5, " other": -1.5}


def test_embeddings_in_base64_are_those_in_numbers(got: dict[str, Any]) -> None:
    packed, plain = got["embeddings"]["data"], got["embeddings_float"]["data"]
    assert [entry["index"] for entry in packed] == [0, 1]
    for one, other in zip(packed, plain, strict=True):
        assert one["embedding"] == pytest.approx(other["embedding"], abs=1e-6)


def test_a_response_is_read_whole_and_streamed(got: dict[str, Any]) -> None:
    assert (got["response_text"], got["response"]["status"]) == (ANSWER, "completed")
    stream = got["response_stream"]
    assert "".join(e["delta"] for e in stream if e["type"] == "response.output_text.delta") == ANSWER
    (item,) = got["response_joined"]["response"]["output"]
    assert item["content"][0]["text"] == ANSWER


def test_a_responses_call_is_read_whole_and_streamed(got: dict[str, Any]) -> None:
    (item,) = got["response_tools"]["output"]
    assert (item["type"], item["name"], json.loads(item["arguments"])) == (
        "function_call",
        "get_weather",
        ARGUMENTS,
    )
    (last,) = got["response_tools_stream"][-1]["response"]["output"]
    assert last["arguments"] == item["arguments"]


@pytest.mark.parametrize(
    ("probe", "error", "status"),
    [
        ("error_model", "NotFoundError", 404),
        ("error_model_stream", "NotFoundError", 404),
        ("error_value", "BadRequestError", 400),
        ("error_image", "BadRequestError", 400),
        ("error_busy", "RateLimitError", 429),
        ("error_kept", "NotFoundError", 404),
    ],
)
def test_an_error_is_raised_by_its_class(got: dict[str, Any], probe: str, error: str, status: int) -> None:
    assert (got[probe]["raised"], got[probe]["status"]) == (error, status)
    assert got[probe]["body"]["message"]


def test_a_wrong_key_is_an_authentication_error(release: str, locked: str) -> None:
    refused = drive(release, locked, "fake/model")["chat"]
    assert (refused["raised"], refused["status"]) == ("AuthenticationError", 401)
    assert refused["body"]["message"] == "Unauthorized"
    right = {"Authorization": "Bearer secret"}
    assert requests.get(f"{locked}/v1/models", headers=right, timeout=5).ok


@pytest.mark.parametrize("probe", ["broken_stream", "broken_response"])
def test_an_error_in_a_stream_is_raised(got: dict[str, Any], probe: str) -> None:
    assert (got[probe]["raised"], got[probe]["message"]) == ("APIError", "stopping")


def test_the_model_is_listed_and_got(got: dict[str, Any]) -> None:
    assert [model["id"] for model in got["models"]] == [got["model"]["id"]] == ["fake/model"]


def test_the_demo_model_answers(demo: dict[str, Any]) -> None:
    assert "Paris" in only(demo["chat"])["message"]["content"]
    assert (
        only(demo["chat_joined"]["completion"])["message"]["content"]
        == only(demo["chat"])["message"]["content"]
    )
    assert "Paris" in demo["response_text"]
    assert "Paris" in only(demo["completion"])["text"]
    assert only(demo["chat_extras"])["finish_reason"] == "length"


def test_the_demo_model_calls_tools_and_keeps_to_schemas(demo: dict[str, Any]) -> None:
    for probe in ("chat_tools", "chat_required", "chat_named"):
        assert called(only(demo[probe])["message"]) == ("get_weather", ARGUMENTS)
    assert called(only(demo["chat_tools_joined"]["completion"])["message"]) == ("get_weather", ARGUMENTS)
    assert only(demo["chat_parsed"])["message"]["parsed"]["capital"]
    assert isinstance(json.loads(only(demo["chat_object"])["message"]["content"]), dict)


def test_the_demo_model_has_embeddings(demo: dict[str, Any]) -> None:
    one, other = (entry["embedding"] for entry in demo["embeddings"]["data"])
    assert len(one) == len(other) > 4
    assert one != other


# LangChain's -------------------------------------------------------------------------------------------


def test_langchain_reads_chats_whole_and_streamed(chained: dict[str, Any]) -> None:
    assert chained["chat"] == chained["chat_stream"] == {"text": ANSWER, "calls": [], "ended": "stop"}
    assert chained["chat_pieces"] > 7
    assert chained["chat_usage"]["total_tokens"] == 10
    assert chained["responses"] == ANSWER


def test_langchain_reads_calls_whole_and_streamed(chained: dict[str, Any]) -> None:
    for probe in ("chat_tools", "chat_tools_stream"):
        (call,) = chained[probe]["calls"]
        assert (call["name"], call["args"]) == ("get_weather", ARGUMENTS)
        assert chained[probe]["ended"] == "tool_calls"
    assert chained["chat_called"] == ARGUMENTS


def test_langchain_reads_answers_by_their_schema(chained: dict[str, Any]) -> None:
    assert chained["chat_shaped"] == {"capital": "Paris"}


def test_langchain_reads_completions_embeddings_and_logprobs(chained: dict[str, Any]) -> None:
    assert chained["completion"] == chained["completion_stream"] == ANSWER
    assert chained["embeddings"] == [4, 4]
    assert [entry["token"] for entry in chained["chat_scored"]["content"]][:2] == ["The", " capital"]


@pytest.mark.parametrize(
    ("probe", "error"), [("error_model", "NotFoundError"), ("error_busy", "RateLimitError")]
)
def test_langchain_raises_errors_by_their_class(chained: dict[str, Any], probe: str, error: str) -> None:
    assert chained[probe]["raised"] == error


def test_langchain_talks_to_the_demo_model(server: str) -> None:
    got = drive("langchain-openai", server, "models/demo")
    assert "Paris" in got["chat"]["text"]
    assert got["chat"]["text"] == got["chat_stream"]["text"]
    assert got["chat_tools_stream"]["calls"][0]["args"] == ARGUMENTS
    assert got["chat_result"]["text"]
