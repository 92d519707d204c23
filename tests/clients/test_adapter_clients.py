"""Real clients name an adapter that peft made, and get the answer of transformers with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.client_process import run_driver
from tests.lora.demo_adapter import peft_answer, save_adapter
from tests.servers.serving import serving

pytestmark = pytest.mark.slow

MODEL, PROMPT, TOKENS = "models/demo", "The capital of France is", 8
OPENAI = ("openai-1", "openai-3")
LLAMA_STACK = ("llama-stack-0.0.41", "llama-stack-0.0.63", "llama-stack-0.1.9", "llama-stack-0.2.12")
HUB = ("huggingface-hub-0.36", "huggingface-hub-2.4")


class AdapterServer(NamedTuple):
    """A server whose adapter `poet` answers PROMPT with `poem`."""

    url: str
    poem: str
    folder: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdapterServer]:
    folder = save_adapter(tmp_path_factory.mktemp("adapters") / "poet", seed=1)
    poem = peft_answer(folder, PROMPT, TOKENS)
    assert poem.strip() and not poem.startswith(" Paris")
    flags = ("--dtype", "float32", "--adapter-dirs", str(folder.parent), "--lora-modules", f"poet={folder}")
    with serving(*flags) as running:
        for name in OPENAI:
            running.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "poet"})
        yield AdapterServer(running.url, poem, folder)


def drive(environment: str, client: str, served: AdapterServer, adapter: str = "poet") -> Any:
    return run_driver(environment, "drive_adapters.py", client, served.url, MODEL, adapter, PROMPT)


@pytest.mark.parametrize("environment", OPENAI)
def test_openais_client_calls_lists_and_deletes_an_adapter(served: AdapterServer, environment: str) -> None:
    results = drive(environment, "openai", served, environment)
    assert (results["model"].strip(), results["adapter"]) == ("Paris.", served.poem)
    assert results["unknown"][0] == 404
    assert results["unknown"][1]["message"] == "The model `none` does not exist."
    assert {MODEL, "poet", environment} <= set(results["names"])
    assert (results["card"]["root"], results["card"]["parent"]) == (environment, MODEL)
    assert results["keeps_model"][0] == 400
    assert results["deleted"] == {"id": environment, "object": "model", "deleted": True}
    assert results["names_after"] == [name for name in results["names"] if name != environment]


@pytest.mark.parametrize("environment", LLAMA_STACK)
def test_llama_stacks_clients_ask_an_adapter(served: AdapterServer, environment: str) -> None:
    results = drive(environment, "llama_stack", served)
    assert (results["model"].strip(), results["adapter"]) == ("Paris.", served.poem)
    assert results["unknown"] == [400]
    assert (results["parents"][MODEL], results["parents"]["poet"]) == (None, MODEL)


@pytest.mark.parametrize("environment", HUB)
def test_huggingface_hub_sends_an_adapter_id(served: AdapterServer, environment: str) -> None:
    results = drive(environment, "huggingface_hub", served)
    assert (results["model"].strip(), results["adapter"]) == ("Paris.", served.poem)
    assert results["adapter_stream"] == served.poem
    assert results["unknown"][0] == "ValidationError"
    assert "`adapter_id` must be an adapter or model" in results["unknown"][1]
