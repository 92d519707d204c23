"""Two local models in one server, of which one fits: loads, swaps, crashes, unloads, in real processes."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import requests

from tests.serving import ServerProcess, serving

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
def server() -> Iterator[ServerProcess]:
    flags = ("--models", json.dumps(MODELS), "--max-loaded-models", "1", "--model-swap-seconds", "0.5")
    with serving(*flags) as server:
        yield server
    assert not psutil.pid_exists(server.process.pid)


def ask(server: ServerProcess, model: str) -> str:
    response = server.post("/v1/chat/completions", CHAT | {"model": model})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


def statuses(server: ServerProcess) -> dict[str, str]:
    cards = requests.get(f"{server.url}/v1/models", timeout=10).json()["data"]
    return {card["id"]: card["status"]["value"] for card in cards}


def children(server: ServerProcess) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


def wait_until_unloaded(server: ServerProcess, model: str) -> None:
    end = time.monotonic() + 30
    while statuses(server)[model] != "unloaded":
        assert time.monotonic() < end
        time.sleep(0.1)


def test_models_take_turns_in_the_memory_of_one(server: ServerProcess) -> None:
    assert statuses(server) == {"a": "unloaded", "b": "unloaded", "bee": "unloaded"} and not children(server)
    with ThreadPoolExecutor(8) as pool:
        answers_in_order = list(pool.map(lambda name: ask(server, name), ["a", "bee"] * 4))
    assert answers_in_order == [PARIS] * 8 and len(children(server)) == 1
    metrics = requests.get(f"{server.url}/metrics", timeout=10).text
    assert metrics.count("hearth_model_unloads_total{model=") == 1, "eight mixed requests took one swap"


def test_a_crash_ends_one_model_and_the_next_request_loads_it(server: ServerProcess) -> None:
    (loaded,) = (name for name, status in statuses(server).items() if status == "loaded" and name != "bee")
    os.kill(children(server)[0].pid, signal.SIGKILL)
    wait_until_unloaded(server, loaded)
    assert requests.get(f"{server.url}/health", timeout=10).ok and ask(server, loaded) == PARIS


def test_an_unloaded_model_has_no_process(server: ServerProcess) -> None:
    for name in ("a", "b"):
        assert server.post("/models/unload", {"model": name}).json() == {"success": True}
        wait_until_unloaded(server, name)
    assert not children(server)
