"""TGI's client and huggingface_hub's, old and new, against this server: their users get the right results."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow

QUESTION = "What is the capital of France?"
ANSWER_TEXT = " The capital of France is Paris."


@dataclass(frozen=True)
class Client:
    """A client to drive.

    environment  the environment that it is installed in
    driver       the script that calls it
    """

    environment: str
    driver: str


OWN = [Client(f"text-generation-{version}", "drive_text_generation.py") for version in ("0.7.0", "0.6.1")]
HUB = [Client(f"huggingface-hub-{version}", "drive_huggingface_hub.py") for version in ("0.36", "2.4")]


def environment_of(client: Client) -> str:
    return client.environment


def drive(client: Client, url: str) -> dict[str, Any]:
    return run_driver(client.environment, client.driver, url)


@pytest.fixture(params=[*OWN, *HUB], ids=environment_of, scope="module")
def any_client(request: pytest.FixtureRequest) -> Client:
    return request.param


@pytest.fixture
def results(any_client: Client, server: str) -> dict[str, Any]:
    """The result of each probe of the driver on the demo model."""
    return drive(any_client, server)


@pytest.fixture(params=OWN, ids=environment_of)
def own(request: pytest.FixtureRequest, server: str) -> dict[str, Any]:
    return drive(request.param, server)


@pytest.fixture(params=HUB, ids=environment_of)
def hub(request: pytest.FixtureRequest, server: str) -> dict[str, Any]:
    return drive(request.param, server)


def text_of(events: list[dict[str, Any]]) -> str:
    """The text of a stream, joined as a client joins it."""
    return "".join(event["token"]["text"] for event in events if not event["token"]["special"])


def test_the_end_and_the_cost_of_an_answer_are_read(results: dict[str, Any]) -> None:
    response, details = results["async"], results["async"]["details"]
    assert (response["generated_text"], details["finish_reason"]) == (ANSWER_TEXT, "eos_token")
    assert details["generated_tokens"] == len(details["tokens"])
    assert (details["seed"], details["tokens"][-1]["special"]) == (None, True)


def test_the_prompts_tokens_are_read(results: dict[str, Any]) -> None:
    first, *others = results["prefill"]["details"]["prefill"]
    assert first["logprob"] is None
    assert all(token["logprob"] <= 0 for token in others)
    assert "".join(token["text"] for token in others) == QUESTION


def test_the_best_of_two_is_read(results: dict[str, Any]) -> None:
    details = results["best_of"]["details"]
    (other,) = details["best_of_sequences"]
    assert mean(details["tokens"]) >= mean(other["tokens"])
    assert details["seed"] != other["seed"]


def mean(tokens: list[dict[str, Any]]) -> float:
    return sum(token["logprob"] for token in tokens) / len(tokens)


def test_a_seed_is_respected(results: dict[str, Any], server: str) -> None:
    texts = {client: drive(client, server)["sampled"]["generated_text"] for client in (*OWN, *HUB)}
    assert set(texts.values()) == {results["sampled"]["generated_text"]}
    assert results["sampled"]["details"]["seed"] == 7


def test_a_stop_string_ends_the_text_and_is_part_of_it(results: dict[str, Any]) -> None:
    assert results["stopped"]["generated_text"] == " The capital"
    assert results["stopped"]["details"]["finish_reason"] == "stop_sequence"


def test_a_stream_equals_a_whole_answer(results: dict[str, Any]) -> None:
    events = results["async_stream"]
    assert text_of(events) == ANSWER_TEXT
    assert events[-1]["generated_text"].endswith(ANSWER_TEXT)
    assert events[-1]["details"]["finish_reason"] == "eos_token"


@pytest.mark.parametrize("probe", ["error_value", "error_value_stream"])
def test_a_wrong_value_is_a_validation_error(results: dict[str, Any], probe: str) -> None:
    message = "Input validation error: `top_n_tokens` must be >= 0 and <= 5. Given: 99"
    assert results[probe] == {"raised": "ValidationError", "message": message}


@pytest.mark.parametrize("probe", ["error_busy", "error_busy_stream"])
def test_a_busy_server_is_an_overloaded_error(any_client: Client, scripted: str, probe: str) -> None:
    outcome = drive(any_client, scripted)[probe]
    assert outcome == {"raised": "OverloadedError", "message": "Model is overloaded"}


@pytest.mark.parametrize("probe", ["error_break", "error_break_stream"])
def test_a_server_that_stops_midway_raises(any_client: Client, scripted: str, probe: str) -> None:
    assert drive(any_client, scripted)[probe] == {"raised": "OverloadedError", "message": "stopping"}


def test_tgis_own_client_reads_whole_answers(own: dict[str, Any]) -> None:
    assert own["whole"]["generated_text"] == ANSWER_TEXT
    assert own["full_text"]["generated_text"] == QUESTION + ANSWER_TEXT
    assert own["short"]["details"]["finish_reason"] == "length"
    assert [len(tokens) for tokens in own["top"]["details"]["top_tokens"]] == [2, 2]
    assert own["watermarked"]["details"]["seed"] is not None


def test_tgis_own_client_reads_streams(own: dict[str, Any]) -> None:
    assert text_of(own["stream"]) == own["stream"][-1]["generated_text"] == ANSWER_TEXT
    assert own["stream_sampled"][-1]["generated_text"] == own["sampled"]["generated_text"]


def test_tgis_own_client_raises_the_right_errors(own: dict[str, Any]) -> None:
    assert own["error_value_async"]["raised"] == "ValidationError"
    assert own["error_path"]["raised"] == "NotFoundError"
    assert own["error_length"] == {
        "raised": "ValidationError",
        "message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. "
        "Given: 10 `inputs` tokens and 1000000 `max_new_tokens`",
    }


def test_tgis_own_client_chats(server: str) -> None:
    """Since 0.7. Its streams end in an error of the client itself: it parses the final [DONE] as JSON."""
    results = drive(OWN[0], server)
    (choice,) = results["chat"]["choices"]
    chunks = [chunk["choices"][0] for chunk in results["chat_stream"]["chunks"]]
    assert choice["message"]["content"] == ANSWER_TEXT.strip().removesuffix(".")
    assert "".join(chunk["delta"]["content"] or "" for chunk in chunks) == choice["message"]["content"]
    assert chunks[-1]["finish_reason"] == choice["finish_reason"] == "length"
    assert (results["chat_stream"]["raised"], results["chat_stream"]["at"]) == ("JSONDecodeError", "[DONE]")
    assert results["error_chat"]["raised"] == "ValidationError"


def test_the_hubs_client_gets_the_prompt_back_unless_it_declines(hub: dict[str, Any]) -> None:
    assert (hub["text"], hub["text_only_answer"]) == (QUESTION + ANSWER_TEXT, ANSWER_TEXT)


def test_the_hubs_client_reads_details(hub: dict[str, Any]) -> None:
    assert hub["whole"]["details"]["finish_reason"] == "length"
    assert [len(tokens) for tokens in hub["whole"]["details"]["top_tokens"]] == [2, 2, 2]
    shaped = json.loads(hub["grammar"])  # a completion, not a chat: only the format of its text is certain
    assert shaped.keys() == {"capital"} and isinstance(shaped["capital"], str)


def test_the_hubs_client_reads_streams(hub: dict[str, Any]) -> None:
    assert "".join(hub["stream"][:-1]) == text_of(hub["stream_details"]) == ANSWER_TEXT
    assert [event["index"] for event in hub["stream_details"]] == list(range(1, 13))


def test_the_hubs_client_chats(hub: dict[str, Any]) -> None:
    content = hub["chat"]["choices"][0]["message"]["content"]
    texts = [chunk["choices"][0]["delta"]["content"] or "" for chunk in hub["chat_stream"]]
    assert content == "".join(texts) == "The capital of France is Paris"
    scores = hub["chat_scored"]["choices"][0]["logprobs"]["content"]
    assert [score["token"] for score in scores] == ["The", " capital"]
    assert [len(score["top_logprobs"]) for score in scores] == [2, 2]


def test_the_hubs_client_gets_schemas_and_calls(hub: dict[str, Any]) -> None:
    (shaped,), (armed,) = hub["chat_shaped"]["choices"], hub["chat_armed"]["choices"]
    assert list(json.loads(shaped["message"]["content"])) == ["capital"]
    (call,) = armed["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert list(json.loads(call["function"]["arguments"])) == ["city"]


def test_the_hubs_client_raises_the_error_of_a_chat(hub: dict[str, Any]) -> None:
    assert hub["error_chat"]["raised"] == "BadRequestError"
    assert "temperature must be non-negative" in hub["error_chat"]["message"]
    assert "does not exist" in hub["error_model"]["message"]


def test_the_hubs_client_reads_the_description_of_the_server(hub: dict[str, Any]) -> None:
    assert (hub["info"]["model_id"], hub["info"]["max_total_tokens"]) == ("models/demo", 2048)
    assert hub["health"] is True
