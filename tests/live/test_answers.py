"""What the engine guarantees of answers: seeds, prefix caching, the same text streamed and whole."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.servers.serving import ServerProcess

SAMPLED = {"strategy": {"type": "top_p", "temperature": 1.5, "top_p": 0.99}, "max_tokens": 24}
RULES = " ".join(f"Rule {k}: be kind, brief and right." for k in range(60))


def chat(server: ServerProcess, question: str, *, system: str = "", **params: object) -> str:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    body = {"model": "m", "messages": messages, "sampling_params": params}
    response = server.post("/inference/chat_completion", body)
    assert response.ok, response.text
    return response.json()["completion_message"]["content"]


def figure(server: ServerProcess, name: str) -> float:
    lines = requests.get(server.url + "/metrics", timeout=60).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


@pytest.mark.slow
def test_a_seed_gives_the_same_text_alone_and_in_a_batch(server: ServerProcess) -> None:
    def ask(seed: int) -> str:
        return chat(server, "Tell me a story.", seed=seed, **SAMPLED)

    alone = {seed: ask(seed) for seed in range(4)}
    assert len(set(alone.values())) > 1, "at this temperature seeds should differ"
    with ThreadPoolExecutor(16) as clients:
        together = list(clients.map(ask, [seed % 4 for seed in range(32)]))
    assert together == [alone[seed % 4] for seed in range(32)]


@pytest.mark.slow
def test_a_repeated_system_prompt_is_not_computed_again(server: ServerProcess) -> None:
    chat(server, "What is the capital of Spain?", system=RULES, max_tokens=1)
    prompts, cached = (
        figure(server, "hearth_prompt_tokens_total"),
        figure(server, "hearth_cached_tokens_total"),
    )
    chat(server, "Count from 1 to 3.", system=RULES, max_tokens=1)
    num_prompt_tokens = figure(server, "hearth_prompt_tokens_total") - prompts
    assert figure(server, "hearth_cached_tokens_total") - cached > 0.9 * num_prompt_tokens > 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", ["What's the capital of France?", "Count from 1 to 40.", "Antworte: 你好 🙂 é"]
)
def test_the_joined_stream_equals_the_whole_answer(server: ServerProcess, question: str) -> None:
    body = {"model": "m", "content": question, "sampling_params": {"max_tokens": 60}}
    content = server.post("/inference/completion", body).json()["content"]
    stream = server.post("/inference/completion", {**body, "stream": True})
    assert "".join(json.loads(line)["delta"] for line in stream.text.splitlines()) == content


@pytest.mark.slow
def test_a_schema_is_enforced(server: ServerProcess) -> None:
    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string", "maxLength": 20}},
        "required": ["capital"],
        "additionalProperties": False,
    }
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "response_format": {"type": "json_schema", "json_schema": schema},
        "sampling_params": {"max_tokens": 60},
    }
    message = server.post("/inference/chat_completion", body).json()["completion_message"]
    assert message["stop_reason"] == "end_of_turn"
    assert json.loads(message["content"]) == {"capital": "Paris"}
