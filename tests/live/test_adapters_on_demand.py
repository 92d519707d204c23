"""Adapters of two models of which one fits: peft's answers, through loads and swaps of the models."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.lora.demo_adapter import peft_answer, save_adapter
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

PROMPT, NUM_TOKENS = "The capital of France is", 12
FLOAT32 = {"RUNNER": "fused", "THREADS": 1, "DTYPE": "float32"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    save_adapter(folder / "poet", seed=1)
    save_adapter(folder / "cook", seed=2, r=4, target_modules=["v_proj", "o_proj"])
    return folder


@pytest.fixture(scope="module")
def models(folder: Path) -> Iterator[ServerProcess]:
    entries = [
        {"base_model": "models/demo", "display_name": "a", "settings": FLOAT32},
        {
            "base_model": "models/demo",
            "display_name": "b",
            "settings": FLOAT32 | {"LORA_ADAPTERS": f"poet={folder / 'poet'}"},
        },
    ]
    flags = ("--max-loaded-models", "1", "--model-swap-seconds", "0", "--adapter-dirs", str(folder))
    with serving("--models", json.dumps(entries), *flags) as models:
        yield models


def ask(models: ServerProcess, model: str) -> str:
    body = {"model": model, "prompt": PROMPT, "temperature": 0, "max_tokens": NUM_TOKENS}
    response = models.post("/v1/completions", body)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["text"])


def parents(models: ServerProcess) -> dict[str, str | None]:
    cards = requests.get(f"{models.url}/v1/models", timeout=60).json()["data"]
    return {card["id"]: card["parent"] for card in cards}


def load(models: ServerProcess, name: str, **fields: str) -> requests.Response:
    return models.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "cook", **fields})


def test_adapters_answer_as_in_peft_through_swaps_of_their_models(
    models: ServerProcess, folder: Path
) -> None:
    assert parents(models) == {"a": None, "b": None, "poet": "b"}, "known before a model is loaded"
    poet, cook = (peft_answer(folder / name, PROMPT, NUM_TOKENS) for name in ("poet", "cook"))
    plain = ask(models, "b")
    assert ask(models, "poet") == poet and len({poet, cook, plain}) == 3
    assert load(models, "cook", base_model_name="b").status_code == 200
    assert ask(models, "cook") == cook
    assert ask(models, "a") == plain, "b has left, with its adapters"
    assert parents(models) == {"a": None, "b": None, "poet": "b", "cook": "b"}
    assert [ask(models, name) for name in ("cook", "b:poet", "b")] == [cook, poet, plain]


def test_adapters_that_are_unloaded_while_their_model_is_not_in_memory_do_not_return(
    models: ServerProcess, folder: Path
) -> None:
    assert load(models, "chef").status_code == 200, "into the first model"
    assert parents(models)["chef"] == "a"
    reply = load(models, "chef", base_model_name="b", load_inplace=True)
    assert reply.status_code == 400 and "lora_name is an adapter of a" in reply.text
    assert load(models, "cake", base_model_name="c").status_code == 404
    assert models.post("/v1/unload_lora_adapter", {"lora_name": "poet"}).status_code == 200
    body = {"inputs": PROMPT, "parameters": {"adapter_id": "chef", "max_new_tokens": NUM_TOKENS}}
    assert models.post("/generate", body).json()["generated_text"] == ask(models, "chef")
    response = models.post("/v1/completions", {"model": "poet", "prompt": PROMPT})
    assert response.status_code == 404 and parents(models).keys().isdisjoint({"poet"})
