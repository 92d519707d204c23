"""A real Llama Stack distribution that passes requests through to our server, and what its clients get."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.clients.environments import python
from tests.serving import free_port, wait_until_ready

pytestmark = pytest.mark.slow

ANSWER = "The capital of France is Paris."
CONFIG = """
version: '2'
image_name: test
apis: [inference]
providers:
  inference:
  - {{provider_id: hearth, provider_type: "remote::passthrough",
      config: {{url: "{url}/passthrough", api_key: none}}}}
metadata_store: {{type: sqlite, db_path: {folder}/registry.db}}
inference_store: {{type: sqlite, db_path: {folder}/inference.db}}
models:
- {{model_id: m, provider_id: hearth, provider_model_id: fake/model, model_type: llm, metadata: {{}}}}
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
        process.wait(timeout=30)


def ask(url: str, path: str, **fields: Any) -> requests.Response:
    response = requests.post(f"{url}/v1/inference/{path}", json={"model_id": "m"} | fields, timeout=60)
    assert response.status_code == 200, response.text
    return response


def events(response: requests.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [json.loads(line)["event"] for line in lines]


def test_a_whole_chat_passes_through(distribution: str) -> None:
    message = ask(distribution, "chat-completion", messages=[USER]).json()["completion_message"]
    assert message["content"] == ANSWER


def test_a_chats_stream_passes_through(distribution: str) -> None:
    said = events(ask(distribution, "chat-completion", messages=[USER], stream=True))
    assert "".join(event["delta"]["text"] for event in said) == ANSWER
    assert said[-1]["stop_reason"] == "end_of_turn"


def test_a_streamed_tool_call_passes_through(distribution: str) -> None:
    said = events(ask(distribution, "chat-completion", messages=[USER], tools=[WEATHER], stream=True))
    call = said[-2]["delta"]["tool_call"]
    assert (call["tool_name"], call["arguments"]) == ("get_weather", {"city": "Paris"})


def test_a_completion_passes_through(distribution: str) -> None:
    assert ask(distribution, "completion", content="Say it").json()["content"] == ANSWER
