"""llama.cpp's list of adapters with scales: the answers are those of peft's weighted sum of adapters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import torch
from peft import PeftModel
from transformers import AutoTokenizer

from tests.lora.demo_adapter import MODEL, load_model, save_adapter
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

PROMPT, TOKENS = "The capital of France is", 12
BODY = {"prompt": PROMPT, "temperature": 0, "max_tokens": TOKENS}
AT_START = {"poet": 0.5, "cook": 0.75}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("adapters")
    save_adapter(home / "poet", seed=1)
    save_adapter(home / "cook", seed=2, r=4, target_modules=["v_proj", "o_proj"])
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[ServerProcess]:
    with serving(
        "--dtype",
        "float32",
        "--lora-scaled",
        ",".join(f"{home / name}:{scale}" for name, scale in AT_START.items()),
    ) as running:
        yield running


def peft_answer(home: Path, scales: list[float]) -> str:
    """The greedy continuation of transformers with peft's sum."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    adapted = PeftModel.from_pretrained(load_model(), home / "poet", adapter_name="poet")
    adapted.load_adapter(home / "cook", adapter_name="cook")
    adapted.add_weighted_adapter(["poet", "cook"], scales, "sum", combination_type="cat")
    adapted.set_adapter("sum")
    inputs = tokenizer(PROMPT, return_tensors="pt")
    with torch.inference_mode():
        output = adapted.generate(**inputs, do_sample=False, max_new_tokens=TOKENS)
    return str(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def complete(server: ServerProcess, **fields: Any) -> str:
    return str(server.post("/v1/completions", BODY | fields).json()["choices"][0]["text"])


def test_scales_of_the_start_count_until_a_request_sets_others(server: ServerProcess, home: Path) -> None:
    listed = requests.get(f"{server.url}/lora-adapters", timeout=60).json()
    assert {each["name"]: each["scale"] for each in listed} == AT_START
    assert complete(server) == peft_answer(home, [*AT_START.values()])
    assert server.post("/lora-adapters", []).json() == {"success": True}
    assert complete(server) == " Paris."


def test_the_answer_is_that_of_pefts_sum(server: ServerProcess, home: Path) -> None:
    scales = [1.5, 0.25]
    listed = [{"id": id, "scale": scale} for id, scale in enumerate(scales)]
    expected = peft_answer(home, scales)
    server.post("/lora-adapters", [])
    plain = complete(server)
    assert plain == " Paris." != expected
    assert complete(server, lora=listed) == expected
    assert server.post("/lora-adapters", listed).json() == {"success": True}
    assert complete(server) == expected
    assert server.post("/lora-adapters", []).json() == {"success": True}
    assert complete(server) == plain
