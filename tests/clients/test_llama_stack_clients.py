"""llama-stack-client of every generation against our server: what its users get is right."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.environments import driven

pytestmark = pytest.mark.slow

ANSWER = "The capital of France is Paris."
CALL = {"call_id": "call-1", "tool_name": "get_weather", "arguments": {"city": "Paris"}}
SCORES = [
    {"logprobs_by_token": {"The": -0.5, " other": -1.5}},
    {"logprobs_by_token": {" capital": -0.5, " other": -1.5}},
]


@dataclass(frozen=True)
class Release:
    """A release of the client: what it calls the model, what it takes streamed pieces of chats for, whether
    it can decode the stream of a completion."""

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
def got(release: Release, scripted: str) -> dict[str, Any]:
    """What each probe of the driver got from the scripted server."""
    return drive(release, scripted, "fake/model")


def drive(release: Release, url: str, model: str) -> dict[str, Any]:
    return driven(f"llama-stack-{release.version}", "drive_llama_stack.py", url, model, release.key)


def text(release: Release, delta: Any) -> str:
    return delta["text"] if release.typed else delta


def said(release: Release, events: list[list[Any]]) -> str:
    """The text of a chat's stream."""
    return "".join(text(release, delta) for _, kind, delta, _ in events if kind == release.text)


def test_a_whole_chat_is_read(got: dict[str, Any]) -> None:
    message = got["chat"]["completion_message"]
    assert (message["content"], message["stop_reason"], message["tool_calls"]) == (ANSWER, "end_of_turn", [])


def test_a_chats_stream_starts_progresses_and_completes(got: dict[str, Any], release: Release) -> None:
    events = got["chat_stream"]
    assert [kind for kind, *_ in events] == ["start", *["progress"] * 7, "complete"]
    assert {kind for _, kind, *_ in events} == {release.text}
    assert said(release, events) == ANSWER
    assert events[-1][-1] == "end_of_turn"


def test_the_clients_own_logger_shows_the_answer(got: dict[str, Any]) -> None:
    assert got["chat_logged"] == f"Assistant> {ANSWER}"


def test_max_tokens_ends_an_answer_out_of_tokens(got: dict[str, Any]) -> None:
    message = got["chat_short"]["completion_message"]
    assert (message["content"], message["stop_reason"]) == ("The capital", "out_of_tokens")
    assert (got["completion_short"]["content"], got["completion_short"]["stop_reason"]) == (
        "The capital",
        "out_of_tokens",
    )


def test_logprobs_are_read_whole_and_streamed(got: dict[str, Any]) -> None:
    assert got["chat_scored"]["logprobs"] == SCORES
    assert got["completion_scored"]["logprobs"] == SCORES
    assert got["chat_scored_stream"] == [None, *([score] for score in SCORES), None]


def test_a_response_format_reaches_the_model(got: dict[str, Any]) -> None:
    assert json.loads(got["chat_shaped"]["completion_message"]["content"]) == {"capital": "Paris"}
    assert json.loads(got["completion_shaped"]["content"]) == {"capital": "Paris"}


def test_a_whole_chats_tool_call_is_read(got: dict[str, Any]) -> None:
    message = got["chat_armed"]["completion_message"]
    (call,) = message["tool_calls"]
    assert call | CALL == call
    assert message["stop_reason"] == "end_of_message"


def test_a_streamed_tool_call_is_read(got: dict[str, Any], release: Release) -> None:
    pieces = [delta for _, kind, delta, _ in got["chat_armed_stream"] if kind == release.call]
    last = pieces[-1]["tool_call" if release.typed else "content"]
    assert [piece["parse_status"] for piece in pieces] == [
        "started",
        "in_progress",
        "in_progress",
        "succeeded" if release.typed else "success",
    ]
    assert last | CALL == last
    assert got["chat_armed_stream"][-1][-1] == "end_of_message"


def test_a_whole_completion_is_read(got: dict[str, Any], release: Release) -> None:
    reply = got["completion"]
    if release.version == "0.0.41":
        reply = reply["completion_message"]
    assert (reply["content"], reply["stop_reason"]) == (ANSWER, "end_of_turn")


def test_a_completions_stream_is_read(got: dict[str, Any], release: Release) -> None:
    """The oldest clients hand the raw body over."""
    chunks = got["completion_stream"]
    if not release.streams_completions:
        values = [json.loads(line.removeprefix("data: ")) for line in chunks.split("\n\n") if line]
        chunks = [[value["delta"], value["stop_reason"]] for value in values]
    assert "".join(delta for delta, _ in chunks) == ANSWER
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
def test_an_error_is_raised_by_its_class(got: dict[str, Any], probe: str, error: str, status: int) -> None:
    assert (got[probe]["raised"], got[probe]["status"]) == (error, status)
    assert got[probe]["body"]["detail"]


def test_embeddings_are_vectors(got: dict[str, Any]) -> None:
    [first, second] = got["embeddings"]["embeddings"]
    assert first and len(first) == len(second) and first != second


def test_an_error_in_a_stream_is_its_last_chunk(got: dict[str, Any]) -> None:
    *_, progress, (kind, chunk) = got["broken_stream"]
    assert progress[0] == "progress"
    assert (kind, chunk["error"]) == ("error", {"message": "503: stopping"})


def test_the_model_is_listed_and_got(got: dict[str, Any]) -> None:
    (listed,) = got["models"]
    assert listed["identifier"] == got["model"]["identifier"] == "fake/model"


def test_the_server_tells_of_itself(got: dict[str, Any], release: Release) -> None:
    providers, routes = got["providers"], got["routes"]
    if not release.typed:
        providers, routes = providers["inference"], routes["inference"]
    assert got["health"] == {"status": "OK"}
    assert not release.typed or got["version"] == {"version": "0.2.12"}
    assert providers[0]["provider_id"] == "local"
    assert any(route["route"].endswith("/inference/completion") for route in routes)


def test_the_demo_model_answers(release: Release, server: str) -> None:
    got = drive(release, server, "models/demo")
    answer = got["chat"]["completion_message"]
    assert "Paris" in answer["content"]
    assert answer["stop_reason"] == "end_of_turn"
    assert said(release, got["chat_stream"]) == answer["content"]


def test_the_demo_model_calls_tools_and_keeps_to_schemas(release: Release, server: str) -> None:
    got = drive(release, server, "models/demo")
    (call,) = got["chat_armed"]["completion_message"]["tool_calls"]
    assert call["tool_name"] == "get_weather"
    assert list(call["arguments"]) == ["city"]
    assert list(json.loads(got["chat_shaped"]["completion_message"]["content"])) == ["capital"]


def test_the_demo_models_tokens_have_logprobs(release: Release, server: str) -> None:
    scores = drive(release, server, "models/demo")["chat_scored"]["logprobs"]
    assert len(scores) == 2
    assert all(value <= 0 for score in scores for value in score["logprobs_by_token"].values())
