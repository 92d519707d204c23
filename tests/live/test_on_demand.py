"""Two local models in one server, of which one is awake: loads, sleep, crashes, in real processes."""

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import requests

from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

FAST = {"RUNNER": "fused", "THREADS": 1}
MODELS = [
    {"base_model": "models/demo", "display_name": "a", "settings": FAST},
    {
        "base_model": "models/demo",
        "display_name": "b",
        "aliases": ["bee"],
        "settings": FAST | {"CONTEXT": 512},
    },
]
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
PARIS = "The capital of France is Paris."


@pytest.fixture(scope="module")
def models() -> Iterator[ServerProcess]:
    flags = ("--models", json.dumps(MODELS), "--max-loaded-models", "1", "--model-swap-seconds", "0.5")
    with serving(*flags) as models:
        yield models
    assert not psutil.pid_exists(models.process.pid)


# Every dialect, with options that OpenAI and vLLM do not have, and what is refused.
TEXT = "The capital of France is"
MESSAGES = CHAT["messages"]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NEODIM = {"prompt": TEXT, "generated_tokens_count": 8, "max_total_tokens": 64, "seed": 1}
EXCHANGES = [
    (
        "/generate",
        {
            "inputs": TEXT,
            "parameters": {"max_new_tokens": 8, "details": True, "decoder_input_details": True}
            | {"top_n_tokens": 3, "seed": 3, "typical_p": 0.9, "frequency_penalty": 0.2, "watermark": True},
        },
    ),
    ("/generate", {"inputs": TEXT, "parameters": {"best_of": 2, "seed": 5, "do_sample": True}}),
    ("/generate", {"inputs": TEXT, "parameters": {"grammar": {"type": "regex", "value": "[a-z]{4}"}}}),
    ("/generate", {"inputs": TEXT, "parameters": {"max_new_tokens": 6000}}),
    ("/generate", {"inputs": "x " * 3000}),
    ("/generate_stream", {"inputs": TEXT, "parameters": {"max_new_tokens": 6, "stop": ["."]}}),
    (
        "/generate",
        NEODIM
        | {"tfs": 0.9, "top_a": 0.1, "repetition_penalty": 1.2, "repetition_penalty_range": 10}
        | {"repetition_penalty_prompt": "Paris Paris", "bad_words": ["London"], "sequences_count": 2},
    ),
    ("/generate", NEODIM | {"penalty_alpha": 0.6, "top_k": 4, "stop_strings": ["[.]"]}),
    (
        "/v1/completions",
        {"prompt": [TEXT, "Hello"], "seed": 1, "echo": True, "logprobs": 2, "prompt_logprobs": 1},
    ),
    ("/v1/completions", {"prompt": [5, 6, 7], "seed": 4, "n": 3, "return_token_ids": True}),
    (
        "/v1/completions",
        {"prompt": TEXT, "seed": 1, "structured_outputs": {"grammar": 'root ::= "yes" | "no"'}},
    ),
    (
        "/v1/chat/completions",
        CHAT
        | {"tools": [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]}
        | {"tool_choice": "required", "max_tokens": 40},
    ),
    ("/v1/chat/completions", CHAT | {"temperature": 3, "top_p": 2}),
    (
        "/inference/chat_completion",
        {"model_id": "models/demo", "messages": MESSAGES, "logprobs": {"top_k": 2}},
    ),
    ("/v1/embeddings", {"input": ["a", "bb cc"]}),
    ("/embed", {"inputs": ["a", "bb"]}),
    ("/tokenize", {"inputs": TEXT}),
    ("/tokenize", {"messages": MESSAGES}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
]
# What differs from answer to answer; digits that threads change; what depends on earlier requests.
CHANGING = re.compile(
    r'"(id|created)":("[^"]*"|\d+)|call_\w+|(?<=\.\d{3})\d+|"model":"[^"]*"|"cached_tokens":\d+'
)


def ask(models: ServerProcess, model: str) -> str:
    response = models.post("/v1/chat/completions", CHAT | {"model": model})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


def statuses(models: ServerProcess) -> dict[str, str]:
    cards = requests.get(f"{models.url}/v1/models", timeout=60).json()["data"]
    return {card["id"]: card["status"]["value"] for card in cards}


def children(models: ServerProcess) -> list[psutil.Process]:
    return psutil.Process(models.process.pid).children()


def count_changes(models: ServerProcess) -> Counter[str]:
    """How often models were loaded, and put to sleep."""
    metrics = requests.get(f"{models.url}/metrics", timeout=60).text
    changes = re.findall(r"^hearth_model_(loads|sleeps)_total.* (\S+)$", metrics, re.MULTILINE)
    return sum((Counter({change: round(float(count))}) for change, count in changes), Counter())


def wait_until_unloaded(models: ServerProcess, model: str) -> None:
    end = time.monotonic() + 120
    while statuses(models)[model] != "unloaded":
        assert time.monotonic() < end
        time.sleep(0.1)


def unload_both(models: ServerProcess) -> None:
    for name in ("a", "b"):
        assert models.post("/models/unload", {"model": name}).json() == {"success": True}
        wait_until_unloaded(models, name)


def test_models_take_turns_in_the_memory_of_one(models: ServerProcess) -> None:
    unload_both(models)
    assert statuses(models) == {"a": "unloaded", "b": "unloaded", "bee": "unloaded"} and not children(models)
    before = count_changes(models)
    with ThreadPoolExecutor(8) as pool:
        answers_in_order = list(pool.map(lambda name: ask(models, name), ["a", "bee"] * 4))
    assert answers_in_order == [PARIS] * 8
    assert count_changes(models) - before == {"loads": 2, "sleeps": 1}, "eight mixed requests took one swap"


def test_a_model_that_sleeps_is_woken_and_not_loaded(models: ServerProcess) -> None:
    assert [ask(models, name) for name in ("a", "b")] == [PARIS] * 2
    processes, before = {child.pid for child in children(models)}, count_changes(models)
    for _ in range(2):
        (sleeping,) = {"a", "b"} - {name for name, status in statuses(models).items() if status == "loaded"}
        assert statuses(models)[sleeping] == "sleeping"
        assert ask(models, sleeping) == PARIS
    assert count_changes(models) - before == {"sleeps": 2}
    assert {child.pid for child in children(models)} == processes and len(processes) == 2


@pytest.mark.parametrize(("path", "body"), EXCHANGES, ids=lambda value: str(value)[:24])
def test_every_option_of_every_dialect_is_that_of_a_model_alone(
    path: str, body: dict[str, object], models: ServerProcess, server: ServerProcess
) -> None:
    alone, on_demand = server.post(path, body), models.post(path, body)
    assert on_demand.status_code == alone.status_code
    assert CHANGING.sub("", on_demand.text) == CHANGING.sub("", alone.text)


def test_crashes_end_the_models_and_the_next_request_loads_one(models: ServerProcess) -> None:
    for child in children(models):
        os.kill(child.pid, signal.SIGKILL)
    for name in ("a", "b"):
        wait_until_unloaded(models, name)
    assert requests.get(f"{models.url}/health", timeout=60).ok and ask(models, "a") == PARIS


def test_an_unloaded_model_has_no_process(models: ServerProcess) -> None:
    unload_both(models)
    assert not children(models)
