"""One engine behind four dialects: the same prompt and seed give the same text through each."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from tests.servers.serving import ServerProcess

Ask = Callable[[ServerProcess, str, int], str]

TEMPERATURE, TOP_P, TOKENS = 1.6, 0.98, 16
PROMPTS = ("A story: The", "Once upon a time there was", "1, 2, 3,")
SEEDS = (1, 2, 3, 4)


def llama_stack(server: ServerProcess, prompt: str, seed: int) -> str:
    params = {
        "strategy": {"type": "top_p", "temperature": TEMPERATURE, "top_p": TOP_P},
        "max_tokens": TOKENS,
        "seed": seed,
    }
    body = {"model": "m", "content": prompt, "sampling_params": params}
    return server.post("/inference/completion", body).json()["content"]


def openai(server: ServerProcess, prompt: str, seed: int) -> str:
    body = {"prompt": prompt, "temperature": TEMPERATURE, "top_p": TOP_P, "max_tokens": TOKENS, "seed": seed}
    return server.post("/v1/completions", body).json()["choices"][0]["text"]


def tgi(server: ServerProcess, prompt: str, seed: int) -> str:
    parameters = {
        "do_sample": True,
        "temperature": TEMPERATURE,
        "top_p": TOP_P,
        "max_new_tokens": TOKENS,
        "seed": seed,
    }
    return server.post("/generate", {"inputs": prompt, "parameters": parameters}).json()["generated_text"]


def neodim(server: ServerProcess, prompt: str, seed: int) -> str:
    body = {
        "prompt": prompt,
        "generated_tokens_count": TOKENS,
        "max_total_tokens": 200,
        "temperature": TEMPERATURE,
        "top_p": TOP_P,
        "seed": seed,
        "can_stop_early": True,
    }
    return server.post("/generate", body).json()["sequences"][0]["generated_text"]


DIALECTS: tuple[Ask, ...] = (llama_stack, openai, tgi, neodim)


@pytest.fixture(scope="module")
def alone(server: ServerProcess) -> dict[tuple[str, int], str]:
    """The text of each prompt and seed, requested one after another."""
    return {(prompt, seed): openai(server, prompt, seed) for prompt, seed in product(PROMPTS, SEEDS)}


@pytest.mark.slow
def test_different_seeds_give_different_texts(alone: dict[tuple[str, int], str]) -> None:
    assert len(set(alone.values())) > len(alone) / 2


@pytest.mark.slow
@pytest.mark.parametrize("ask", DIALECTS, ids=lambda ask: ask.__name__)
def test_a_seed_gives_the_same_text_in_each_dialect(
    server: ServerProcess, ask: Ask, alone: dict[tuple[str, int], str]
) -> None:
    assert {pair: ask(server, *pair) for pair in alone} == alone


@pytest.mark.slow
def test_a_seed_gives_the_same_text_under_load(
    server: ServerProcess, alone: dict[tuple[str, int], str]
) -> None:
    calls = list(product(DIALECTS, alone))
    with ThreadPoolExecutor(len(calls)) as clients:
        texts = list(clients.map(lambda each: each[0](server, *each[1]), calls))
    assert texts == [alone[pair] for _, pair in calls]
