"""Adapters made by peft answer as transformers and peft do: alone, and with each other and the base."""

from pathlib import Path

import pytest

from tests.families import tiny
from tests.lora.adapted_engine import AdaptedEngine, prompts
from tests.lora.peft_adapters import generate_greedily, peft_answers, save_adapter

RUNNERS = ("fused", "paged", "contiguous", "uncached")


@pytest.mark.parametrize("kind", RUNNERS)
def test_three_adapters_and_the_base_in_one_batch_answer_as_peft(tmp_path: Path, kind: str) -> None:
    folders = [save_adapter(tmp_path / str(seed), "llama", seed) for seed in range(3)]
    base = [generate_greedily(tiny("llama"), prompt) for prompt in prompts()]
    expected = [base, *(peft_answers(folder, "llama", prompts()) for folder in folders)]
    served = AdaptedEngine(tiny("llama"), (kind,))
    for number, folder in enumerate(folders, 1):
        served.load(folder, number)
    together = [[served.submit(prompt, number) for prompt in prompts()] for number in range(4)]
    served.run()
    assert [[each.ids for each in sinks] for sinks in together] == expected
    assert len(set(map(str, expected))) == 4, "the adapters change the answers"
