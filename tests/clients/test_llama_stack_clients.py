"""llama-stack-client of every protocol version against this server: its users get the right results."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.client_process import run_driver

pytestmark = pytest.mark.slow

ANSWER_TEXT = "The capital of France is Paris."
CALL = {"call_id": "call-1", "tool_name": "get_weather", "arguments": {"city": "Paris"}}
SCORES = [
    {"logprobs_by_token": {"The": -0.5, " other": -1.5}},
    {"logprobs_by_token": {" capital": -0.5, " other": -1.5}},
]


@dataclass(frozen=True)
class Release:
    """A release of the client.

    key                  its name for the model's parameter
    text, call           its classes for the text deltas and the tool call deltas of a chat's stream
    streams_completions  whether it can decode the stream of a completion
    """

    version: str
    key: str
    text: str
    call: str
    streams_completions: bool = True

    @property
    def typed(self) -> bool:
        return self.text != "str"


OLD_CALL = "ChatCompletionResponseStreamChunkEventDeltaToolCallDelta"
RELEASES = [
    Release("0.0.41", "model", "str", OLD_CALL, streams_completions=False),
    Release("0.0.50", "model", "str", OLD_CALL, streams_completions=False),
    Release("0.0.63", "model_id", "str", OLD_CALL),
    Release("0.1.0", "model_id", "Text", "ToolCall"),
    Release("0.1.9", "model_id", "TextDelta", "ToolCallDelta"),
    Release("0.2.12", "model_id", "TextDelta", "ToolCallDelta"),
]


@pytest.fixture(params=RELEASES, ids=lambda release: release.version, scope="module")
def release(request: pytest.FixtureRequest) -> Release:
    return request.param


@pytest.fixture
def results(release: Release, scripted: str) -> dict[str, Any]:
    """The result of each probe of the driver on the scripted server."""
    return drive(release, scripted, "fake/model")


def drive(release: Release, url: str, model: str) -> dict[str, Any]:
    return run_driver(f"llama-stack-{release.version}", "drive_llama_stack.py", url, model, release.key)


def text(release: Release, delta: Any) -> str:
    return delta["text"] if release.typed else delta


def text_of(release: Release, events: list[list[Any]]) -> str:
    """The text of a chat's stream."""
    return "".join(text(release, delta) for _, kind, delta, _ in events if kind == release.text)


def test_a_whole_chat_is_read(results: dict[str, Any]) -> None:
    message = results["chat"]["completion_message"]
    assert (message["content"], message["stop_reason"], message["tool_calls"]) == (
        ANSWER_TEXT,
        "end_of_turn",
        [],
    )


def test_a_chats_stream_starts_progresses_and_completes(results: dict[str, Any], release: Release) -> None:
    events = results["chat_stream"]
    assert [kind for kind, *_ in events] == ["start", *["progress"] * 7, "complete"]
    assert {kind for _, kind, *_ in events} == {release.text}
    assert text_of(release, events) == ANSWER_TEXT
    assert events[-1][-1] == "end_of_turn"


def test_the_clients_own_logger_shows_the_answer(results: dict[str, Any]) -> None:
    assert results["chat_logged"] == f"Assistant> {ANSWER_TEXT}"


def test_max_tokens_ends_an_answer_out_of_tokens(results: dict[str, Any]) -> None:
    message = results["chat_short"]["completion_message"]
    assert (message["content"], message["stop_reason"]) == ("The capital", "out_of_tokens")
    assert (results["completion_short"]["content"], results["completion_short"]["stop_reason"]) == (
        "The capital",
        "out_of_tokens",
    )


def test_logprobs_are_read_whole_and_streamed(results: dict[str, Any]) -> None:
    assert results["chat_scored"]["logprobs"] == SCORES
    assert results["completion_scored"]["logprobs"] == SCORES
    assert results["chat_scored_stream"] == [None, *([score] for score in SCORES), None]


def test_a_response_format_reaches_the_model(results: dict[str, Any]) -> None:
    assert json.loads(results["chat_shaped"]["completion_message"]["content"]) == {"capital": "Paris"}
    assert json.loads(results["completion_shaped"]["content"]) == {"capital": "Paris"}


def test_a_whole_chats_tool_call_is_read(results: dict[str, Any]) -> None:
    message = results["chat_armed"]["completion_message"]
    (call,) = message["tool_calls"]
    assert call | CALL == call
    assert message["stop_reason"] == "end_of_message"


def test_a_streamed_tool_call_is_read(results: dict[str, Any], release: Release) -> None:
    deltas = [delta for _, kind, delta, _ in results["chat_armed_stream"] if kind == release.call]
    last = deltas[-1]["tool_call" if release.typed else "content"]
    assert [entry["parse_status"] for entry in deltas] == [
        "started",
        "in_progress",
        "in_progress",
        "succeeded" if release.typed else "success",
    ]
    assert last | CALL == last
    assert results["chat_armed_stream"][-1][-1] == "end_of_message"


def test_a_whole_completion_is_read(results: dict[str, Any], release: Release) -> None:
    reply = results["completion"]
    if release.version == "0.0.41":
        reply = reply["completion_message"]
    assert (reply["content"], reply["stop_reason"]) == (ANSWER_TEXT, "end_of_turn")


def test_a_completions_stream_is_read(results: dict[str, Any], release: Release) -> None:
    """The oldest clients return the raw body."""
    chunks = results["completion_stream"]
    if not release.streams_completions:
        values = [json.loads(line.removeprefix("data: ")) for line in chunks.split("\n\n") if line]
        chunks = [[value["delta"], value["stop_reason"]] for value in values]
    assert "".join(delta for delta, _ in chunks) == ANSWER_TEXT
    assert chunks[-1] == ["", "end_of_turn"]


@pytest.mark.parametrize(
    ("probe", "error", "status"),
    [
        ("error_model", "BadRequestError", 400),
        ("error_model_stream", "BadRequestError", 400),
        ("error_role", "BadRequestError", 400),
        ("error_image", "BadRequestError", 400),
        ("error_busy", "RateLimitError", 429),
    ],
)
def test_an_error_is_raised_by_its_class(
    results: dict[str, Any], probe: str, error: str, status: int
) -> None:
    assert (results[probe]["raised"], results[probe]["status"]) == (error, status)
    assert results[probe]["body"]["detail"]


def test_embeddings_are_vectors(results: dict[str, Any]) -> None:
    [first, second] = results["embeddings"]["embeddings"]
    assert first and len(first) == len(second) and first != second


def test_an_error_in_a_stream_is_its_last_chunk(results: dict[str, Any]) -> None:
    *_, progress, (kind, chunk) = results["broken_stream"]
    assert progress[0] == "progress"
    assert (kind, chunk["error"]) == ("error", {"message": "503: stopping"})


def test_the_model_is_listed_and_retrieved(results: dict[str, Any]) -> None:
    (card,) = results["models"]
    assert card["identifier"] == results["model"]["identifier"] == "fake/model"


def test_the_server_describes_itself(results: dict[str, Any], release: Release) -> None:
    providers, routes = results["providers"], results["routes"]
    if not release.typed:
        providers, routes = providers["inference"], routes["inference"]
    assert results["health"] == {"status": "OK"}
    assert not release.typed or results["version"] == {"version": "0.2.12"}
    assert providers[0]["provider_id"] == "local"
    assert any(route["route"].endswith("/inference/completion") for route in routes)


def test_the_demo_model_answers(release: Release, server: str) -> None:
    results = drive(release, server, "models/demo")
    reply = results["chat"]["completion_message"]
    assert "Paris" in reply["content"]
    assert reply["stop_reason"] == "end_of_turn"
    assert text_of(release, results["chat_stream"]) == reply["content"]


def test_the_demo_model_calls_tools_and_follows_schemas(release: Release, server: str) -> None:
    results = drive(release, server, "models/demo")
    (call,) = results["chat_armed"]["completion_message"]["tool_calls"]
    assert call["tool_name"] == "get_weather"
    assert list(call["arguments"]) == ["city"]
    assert list(json.loads(results["chat_shaped"]["completion_message"]["content"])) == ["capital"]


def test_the_demo_models_tokens_have_logprobs(release: Release, server: str) -> None:
    scores = drive(release, server, "models/demo")["chat_scored"]["logprobs"]
    assert len(scores) == 2
    assert all(value <= 0 for score in scores for value in score["logprobs_by_token"].values())
