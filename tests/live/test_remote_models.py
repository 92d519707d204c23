"""A server whose models run on this machine and on another Hearth, reached in three dialects."""

import json
from collections.abc import Iterator

import pytest
import requests

from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

KEY = "sesame"
QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
NAMES = ("far", "far-tgi", "far-openai", "models/demo")


@pytest.fixture(scope="module")
def front() -> Iterator[ServerProcess]:
    with serving("--api-keys", KEY, "--tuning-dir", "off", "--responses-store", "off") as upstream:
        servers = {
            "far": upstream.url,
            "far-tgi": f"tgi:{upstream.url}",
            "far-openai": f"openai_chat:None:{upstream.url}/v1:None:{KEY}",
        }
        entries = [
            {"base_model": "models/demo", "display_name": name, "inference_server": server, "key": KEY}
            for name, server in servers.items()
        ]
        models = json.dumps([*entries, {"base_model": "models/demo"}])
        with serving("--models", models, "--tuning-dir", "off", "--responses-store", "off") as front:
            yield front


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stream", [False, True])
def test_every_model_answers_a_chat(name: str, stream: bool, front: ServerProcess) -> None:
    response = front.post("/v1/chat/completions", QUESTION | {"model": name, "stream": stream})
    assert response.status_code == 200
    if not stream:
        completion = response.json()
        assert completion["choices"][0]["message"]["content"] == "The capital of France is Paris."
        assert (completion["usage"]["prompt_tokens"], completion["usage"]["completion_tokens"]) == (21, 11)
        return
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "The capital of France is Paris."


@pytest.mark.parametrize("name", NAMES)
def test_every_model_answers_llama_stack(name: str, front: ServerProcess) -> None:
    response = front.post("/v1/inference/chat-completion", QUESTION | {"model_id": name})
    assert response.json()["completion_message"]["content"] == "The capital of France is Paris."


def test_a_request_without_a_model_goes_to_the_first(front: ServerProcess) -> None:
    parameters = {"max_new_tokens": 4, "details": True}
    generated = front.post(
        "/generate", {"inputs": "The capital of France is", "parameters": parameters}
    ).json()
    assert generated["generated_text"] == " Paris." and generated["details"]["generated_tokens"] == 4


def test_the_lists_name_every_model_and_no_key(front: ServerProcess) -> None:
    response = requests.get(f"{front.url}/v1/models", timeout=60)
    assert [card["id"] for card in response.json()["data"]] == ["far", "far-tgi", "far-openai", "models/demo"]
    assert KEY not in response.text
