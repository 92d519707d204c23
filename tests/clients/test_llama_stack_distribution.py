"""A real Llama Stack distribution in front of this server, through two of its providers."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from scripts.loopback import free_port
from tests.clients.client_process import run_driver
from tests.clients.environments import python
from tests.servers.serving import wait_until_ready

pytestmark = pytest.mark.slow

ANSWER_TEXT = "The capital of France is Paris."
CONFIG = """
version: '2'
image_name: test
apis: [inference]
providers:
  inference:
  - {{provider_id: hearth, provider_type: "remote::passthrough",
      config: {{url: "{url}/passthrough", api_key: none}}}}
  - {{provider_id: vllm, provider_type: "remote::vllm",
      config: {{url: "{url}/v1", api_token: none, max_tokens: 128}}}}
metadata_store: {{type: sqlite, db_path: {folder}/registry.db}}
inference_store: {{type: sqlite, db_path: {folder}/inference.db}}
models:
- {{model_id: m, provider_id: hearth, provider_model_id: fake/model, model_type: llm, metadata: {{}}}}
- {{model_id: openai, provider_id: vllm, provider_model_id: fake/model, model_type: llm, metadata: {{}}}}
server: {{port: {port}, host: 127.0.0.1}}
"""
USER = {"role": "user", "content": "What's the capital of France?"}
WEATHER = {"tool_name": "get_weather", "parameters": {"city": {"param_type": "string"}}}


@pytest.fixture(scope="module")
def distribution(scripted: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a distribution in front of the scripted server."""
    folder, port = tmp_path_factory.mktemp("distribution"), free_port()
    (folder / "run.yaml").write_text(CONFIG.format(url=scripted, folder=folder, port=port))
    module = "llama_stack.distribution.server.server"
    command = [python("llama-stack-distribution-0.2.12"), "-m", module, "--config", "run.yaml"]
    process = subprocess.Popen([*command, "--port", str(port)], cwd=folder, env={"HOME": str(folder)})
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", process, "/v1/health")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def ask(url: str, path: str, **fields: Any) -> requests.Response:
    response = requests.post(f"{url}/v1/inference/{path}", json={"model_id": "m"} | fields, timeout=60)
    assert response.status_code == 200, response.text
    return response


def events(response: requests.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [json.loads(line)["event"] for line in lines]


def test_a_whole_chat_passes_through(distribution: str) -> None:
    message = ask(distribution, "chat-completion", messages=[USER]).json()["completion_message"]
    assert message["content"] == ANSWER_TEXT


def test_a_chats_stream_passes_through(distribution: str) -> None:
    stream_events = events(ask(distribution, "chat-completion", messages=[USER], stream=True))
    assert "".join(event["delta"]["text"] for event in stream_events) == ANSWER_TEXT
    assert stream_events[-1]["stop_reason"] == "end_of_turn"


def test_a_streamed_tool_call_passes_through(distribution: str) -> None:
    stream_events = events(
        ask(distribution, "chat-completion", messages=[USER], tools=[WEATHER], stream=True)
    )
    call = stream_events[-2]["delta"]["tool_call"]
    assert (call["tool_name"], call["arguments"]) == ("get_weather", {"city": "Paris"})


def test_a_completion_passes_through(distribution: str) -> None:
    assert ask(distribution, "completion", content="Say it").json()["content"] == ANSWER_TEXT


# remote::vllm speaks the OpenAI dialect to this server, and Llama Stack's to its own client.


@pytest.fixture(scope="module")
def results(distribution: str) -> dict[str, Any]:
    """What Llama Stack's own client gets from the distribution."""
    return run_driver("llama-stack-0.2.12", "drive_llama_stack.py", distribution, "openai", "model_id")


def test_a_chat_through_openai_is_whole(results: dict[str, Any]) -> None:
    assert results["chat"]["completion_message"]["content"] == ANSWER_TEXT


def test_a_chat_through_openai_streams(results: dict[str, Any]) -> None:
    texts = [delta["text"] for _, _, delta, _ in results["chat_stream"] if delta["type"] == "text"]
    assert "".join(texts) == ANSWER_TEXT
    assert results["chat_stream"][-1][0] == "complete"


def test_a_completion_through_openai_streams(results: dict[str, Any]) -> None:
    assert results["completion"]["content"] == ANSWER_TEXT
    assert "".join(delta for delta, _ in results["completion_stream"]) == ANSWER_TEXT


def test_a_tool_call_through_openai_is_whole(results: dict[str, Any]) -> None:
    [call] = results["chat_armed"]["completion_message"]["tool_calls"]
    assert (call["tool_name"], call["arguments"]) == ("get_weather", {"city": "Paris"})


def test_a_tool_call_through_openai_streams(results: dict[str, Any]) -> None:
    calls = [
        delta["tool_call"] for _, _, delta, _ in results["chat_armed_stream"] if delta["type"] == "tool_call"
    ]
    named = [call for call in calls if isinstance(call, dict)]
    assert [(call["tool_name"], call["arguments"]) for call in named] == [("get_weather", {"city": "Paris"})]


def test_a_schema_through_openai_constrains_the_answer(results: dict[str, Any]) -> None:
    assert json.loads(results["chat_shaped"]["completion_message"]["content"]) == {"capital": "Paris"}


def test_the_distribution_lists_our_model(results: dict[str, Any]) -> None:
    assert "openai" in {model["identifier"] for model in results["models"]}
