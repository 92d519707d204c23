"""OpenAI's client in two major versions, and LangChain's, get the right results from this server."""

import json
from typing import Any

import pytest
import requests

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow

ANSWER_TEXT = "The capital of France is Paris."
OPENAIS = ["openai-1", "openai-3"]
ARGUMENTS = {"city": "Paris"}


def drive(environment: str, url: str, model: str) -> dict[str, Any]:
    """The result of each probe of the environment's driver."""
    return run_driver(environment, f"drive_{environment.split('-')[0]}.py", f"{url}/v1", model)


@pytest.fixture(params=OPENAIS, scope="module")
def release(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def results(release: str, scripted: str) -> dict[str, Any]:
    return drive(release, scripted, "fake/model")


@pytest.fixture
def demo(release: str, server: str) -> dict[str, Any]:
    return drive(release, server, "models/demo")


@pytest.fixture
def langchain_results(scripted: str) -> dict[str, Any]:
    return drive("langchain-openai", scripted, "fake/model")


def only(completion: dict[str, Any]) -> dict[str, Any]:
    (choice,) = completion["choices"]
    return choice


def call_of(message: dict[str, Any]) -> tuple[str, Any]:
    (call,) = message["tool_calls"]
    return call["function"]["name"], json.loads(call["function"]["arguments"])


def test_a_whole_chat_is_read(results: dict[str, Any]) -> None:
    choice = only(results["chat"])
    assert (choice["message"]["role"], choice["message"]["content"]) == ("assistant", ANSWER_TEXT)
    assert (choice["finish_reason"], results["chat"]["usage"]["completion_tokens"]) == ("stop", 7)


def test_a_chats_stream_is_read_and_its_usage(results: dict[str, Any]) -> None:
    *chunks, last = results["chat_stream"]
    assert "".join(only(chunk)["delta"]["content"] or "" for chunk in chunks) == ANSWER_TEXT
    assert only(chunks[0])["delta"]["role"] == "assistant"
    assert only(chunks[-1])["finish_reason"] == "stop"
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)


def test_the_client_joins_a_stream_to_the_whole_chat(results: dict[str, Any]) -> None:
    message = only(results["chat_joined"]["completion"])["message"]
    assert (message["role"], message["content"]) == ("assistant", ANSWER_TEXT)
    assert results["chat_joined"]["kinds"][-1] == "content.done"


def test_reasoning_is_read_apart_from_the_content(results: dict[str, Any]) -> None:
    message = only(results["chat_reasoned"])["message"]
    assert (message["content"], message["reasoning_content"]) == ("It is Paris.", "France, so Paris.")
    assert message["reasoning"] == message["reasoning_content"]
    details = results["chat_reasoned"]["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == 2
    deltas = [only(chunk)["delta"] for chunk in results["chat_reasoned_stream"]]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "France, so Paris."
    assert "".join(delta["content"] or "" for delta in deltas) == "It is Paris."


def test_the_reasoning_of_a_response_is_an_item(results: dict[str, Any]) -> None:
    joined_events = results["response_reasoned_joined"]
    for response in (results["response_reasoned"], joined_events["response"]):
        reasoning, message = response["output"]
        assert reasoning["content"][0]["text"] == "France, so Paris."
        assert message["content"][0]["text"] == "It is Paris."
        assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    assert joined_events["kinds"].count("response.reasoning_text.delta") == 2


def test_logprobs_are_read_whole_and_streamed(results: dict[str, Any]) -> None:
    unstreamed = only(results["chat_scored"])["logprobs"]["content"]
    assert [entry["token"] for entry in unstreamed] == ["The", " capital"]
    assert [other["token"] for other in unstreamed[0]["top_logprobs"]] == ["The", " other"]
    assert bytes(unstreamed[1]["bytes"]) == b" capital"
    streamed = [only(chunk)["logprobs"] for chunk in results["chat_scored_stream"]]
    assert [entry for logprobs in streamed if logprobs for entry in logprobs["content"]] == unstreamed


def test_a_tools_call_is_read_whole_and_streamed(results: dict[str, Any]) -> None:
    unstreamed = only(results["chat_tools"])
    assert call_of(unstreamed["message"]) == ("get_weather", ARGUMENTS)
    assert unstreamed["finish_reason"] == "tool_calls"
    streamed = only(results["chat_tools_joined"]["completion"])
    assert call_of(streamed["message"]) == ("get_weather", ARGUMENTS)
    assert streamed["message"]["tool_calls"][0]["type"] == "function"
    assert streamed["finish_reason"] == "tool_calls"
    deltas = [
        call for chunk in results["chat_tools_stream"] for call in only(chunk)["delta"]["tool_calls"] or []
    ]
    assert [call["function"]["name"] for call in deltas] == ["get_weather", None, None]


def test_a_required_call_ends_with_openais_finish_reasons(results: dict[str, Any]) -> None:
    assert only(results["chat_required"])["finish_reason"] == "tool_calls"
    assert only(results["chat_named"])["finish_reason"] == "stop"
    assert call_of(only(results["chat_named"])["message"]) == ("get_weather", ARGUMENTS)


def test_an_answer_is_parsed_by_its_schema(results: dict[str, Any]) -> None:
    assert only(results["chat_parsed"])["message"]["parsed"] == {"capital": "Paris"}
    assert results["response_parsed"] == {"capital": "Paris"}


def test_completions_are_read_whole_streamed_and_scored(results: dict[str, Any]) -> None:
    assert only(results["completion"])["text"] == ANSWER_TEXT
    assert "".join(only(chunk)["text"] for chunk in results["completion_stream"]) == ANSWER_TEXT
    logprobs = only(results["completion_scored"])["logprobs"]
    assert (logprobs["tokens"], logprobs["text_offset"]) == (["The", " capital"], [0, 3])
    assert logprobs["top_logprobs"][0] == {"The": -0.5, " other": -1.5}


def test_base64_embeddings_equal_float_embeddings(results: dict[str, Any]) -> None:
    base64, plain = results["embeddings"]["data"], results["embeddings_float"]["data"]
    assert [entry["index"] for entry in base64] == [0, 1]
    for encoded, expected in zip(base64, plain, strict=True):
        assert encoded["embedding"] == pytest.approx(expected["embedding"], abs=1e-6)


def test_a_response_is_read_whole_and_streamed(results: dict[str, Any]) -> None:
    assert (results["response_text"], results["response"]["status"]) == (ANSWER_TEXT, "completed")
    stream = results["response_stream"]
    assert "".join(e["delta"] for e in stream if e["type"] == "response.output_text.delta") == ANSWER_TEXT
    (item,) = results["response_joined"]["response"]["output"]
    assert item["content"][0]["text"] == ANSWER_TEXT


def test_a_responses_call_is_read_whole_and_streamed(results: dict[str, Any]) -> None:
    (item,) = results["response_tools"]["output"]
    assert (item["type"], item["name"], json.loads(item["arguments"])) == (
        "function_call",
        "get_weather",
        ARGUMENTS,
    )
    (last,) = results["response_tools_stream"][-1]["response"]["output"]
    assert last["arguments"] == item["arguments"]


def test_the_calls_of_an_agents_tools_are_read(results: dict[str, Any]) -> None:
    (function,) = results["response_namespace_stream"][-1]["response"]["output"]
    assert (function["namespace"], function["name"]) == ("earth", "get_weather")
    stream = results["response_custom_stream"]
    (custom,) = stream[-1]["response"]["output"]
    assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "pick", "a\nb")
    deltas = [event for event in stream if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(event["delta"] for event in deltas) == "a\nb"


@pytest.mark.parametrize(
    ("probe", "error", "status"),
    [
        ("error_model", "NotFoundError", 404),
        ("error_model_stream", "NotFoundError", 404),
        ("error_value", "BadRequestError", 400),
        ("error_image", "BadRequestError", 400),
        ("error_busy", "RateLimitError", 429),
        ("error_kept", "NotFoundError", 404),
        ("error_route", "NotFoundError", 404),
    ],
)
def test_an_error_is_raised_by_its_class(
    results: dict[str, Any], probe: str, error: str, status: int
) -> None:
    assert (results[probe]["raised"], results[probe]["status"]) == (error, status)
    body = results[probe]["body"]
    assert body["message"] and body["type"]
    assert {"param", "code"} <= body.keys()


def test_equal_greedy_answers_are_read(results: dict[str, Any]) -> None:
    choices = results["chat_twice"]["choices"]
    assert [choice["message"]["content"] for choice in choices] == [ANSWER_TEXT] * 2
    assert results["chat_twice"]["usage"]["completion_tokens"] == 14
    joined_choices = results["chat_twice_joined"]["completion"]["choices"]
    assert [choice["message"]["content"] for choice in joined_choices] == [ANSWER_TEXT] * 2


def test_a_wrong_key_is_an_authentication_error(release: str, locked: str) -> None:
    refused = drive(release, locked, "fake/model")["chat"]
    assert (refused["raised"], refused["status"]) == ("AuthenticationError", 401)
    assert refused["body"]["message"].startswith("Unauthorized: this server requires an API key")
    right = {"Authorization": "Bearer secret"}
    assert requests.get(f"{locked}/v1/models", headers=right, timeout=60).ok


@pytest.mark.parametrize("probe", ["broken_stream", "broken_response"])
def test_an_error_in_a_stream_is_raised(results: dict[str, Any], probe: str) -> None:
    assert (results[probe]["raised"], results[probe]["message"]) == ("APIError", "stopping")


def test_the_model_is_listed_and_retrieved(results: dict[str, Any]) -> None:
    assert [model["id"] for model in results["models"]] == [results["model"]["id"]] == ["fake/model"]


def test_the_demo_model_answers(demo: dict[str, Any]) -> None:
    assert "Paris" in only(demo["chat"])["message"]["content"]
    assert (
        only(demo["chat_joined"]["completion"])["message"]["content"]
        == only(demo["chat"])["message"]["content"]
    )
    assert "Paris" in demo["response_text"]
    assert "Paris" in only(demo["completion"])["text"]
    assert only(demo["chat_extras"])["finish_reason"] == "length"


def test_the_demo_model_calls_tools_and_follows_schemas(demo: dict[str, Any]) -> None:
    for probe in ("chat_tools", "chat_required", "chat_named", "chat_allowed"):
        assert call_of(only(demo[probe])["message"]) == ("get_weather", ARGUMENTS)
    assert call_of(only(demo["chat_tools_joined"]["completion"])["message"]) == ("get_weather", ARGUMENTS)
    assert only(demo["chat_parsed"])["message"]["parsed"]["capital"]
    assert isinstance(json.loads(only(demo["chat_object"])["message"]["content"]), dict)


def test_a_prompt_past_the_demo_models_context_has_openais_code(demo: dict[str, Any]) -> None:
    refused = demo["error_length"]
    assert (refused["raised"], refused["body"]["code"]) == ("BadRequestError", "context_length_exceeded")


def test_the_demo_model_has_embeddings(demo: dict[str, Any]) -> None:
    first, second = (entry["embedding"] for entry in demo["embeddings"]["data"])
    assert len(first) == len(second) > 4
    assert first != second


def test_langchain_reads_chats_whole_and_streamed(langchain_results: dict[str, Any]) -> None:
    assert (
        langchain_results["chat"]
        == langchain_results["chat_stream"]
        == {"text": ANSWER_TEXT, "calls": [], "ended": "stop"}
    )
    assert langchain_results["chat_pieces"] > 7
    assert langchain_results["chat_usage"]["total_tokens"] == 10
    assert langchain_results["responses"] == ANSWER_TEXT


def test_langchain_reads_calls_whole_and_streamed(langchain_results: dict[str, Any]) -> None:
    for probe in ("chat_tools", "chat_tools_stream"):
        (call,) = langchain_results[probe]["calls"]
        assert (call["name"], call["args"]) == ("get_weather", ARGUMENTS)
        assert langchain_results[probe]["ended"] == "tool_calls"
    assert langchain_results["chat_called"] == ARGUMENTS


def test_langchain_reads_answers_by_their_schema(langchain_results: dict[str, Any]) -> None:
    assert langchain_results["chat_shaped"] == {"capital": "Paris"}


def test_langchain_reads_completions_embeddings_and_logprobs(langchain_results: dict[str, Any]) -> None:
    assert langchain_results["completion"] == langchain_results["completion_stream"] == ANSWER_TEXT
    assert langchain_results["embeddings"] == [4, 4]
    assert [entry["token"] for entry in langchain_results["chat_scored"]["content"]][:2] == [
        "The",
        " capital",
    ]


@pytest.mark.parametrize(
    ("probe", "error"), [("error_model", "NotFoundError"), ("error_busy", "RateLimitError")]
)
def test_langchain_raises_errors_by_their_class(
    langchain_results: dict[str, Any], probe: str, error: str
) -> None:
    assert langchain_results[probe]["raised"] == error


def test_langchain_talks_to_the_demo_model(server: str) -> None:
    results = drive("langchain-openai", server, "models/demo")
    assert "Paris" in results["chat"]["text"]
    assert results["chat"]["text"] == results["chat_stream"]["text"]
    assert results["chat_tools_stream"]["calls"][0]["args"] == ARGUMENTS
    assert results["chat_result"]["text"]
