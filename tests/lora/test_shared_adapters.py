"""Adapters of a model that two ranks share answer as peft does, whatever their features."""

from pathlib import Path
from typing import Any

import pytest

from tests.lora.adapted_engine import AdaptedEngine, prompts
from tests.lora.peft_adapters import NEW, peft_choices, save_adapter
from tests.model.tensor_parallel.shared_model import open_shared, running_ranks
from tests.tiny_models.families import tiny

TIED = {"tie_word_embeddings": True}
ATTENTION = ["q_proj", "v_proj"]
FEATURES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "pairs": ("llama", {}, {"target_modules": ["q_proj", "o_proj", "up_proj", "down_proj", "lm_head"]}),
    "embedding": ("llama", {}, {"target_modules": ["q_proj", "embed_tokens"]}),
    "tied output layer": ("llama", TIED, {"target_modules": ["q_proj", "lm_head"]}),
    "scaled embedding": ("gemma3_text", {}, {"target_modules": ["q_proj", "embed_tokens"]}),
    "biases": ("phi", {}, {"target_modules": ["q_proj", "dense"], "bias": "all"}),
    "biases of B": ("phi", {}, {"lora_bias": True, "bias": "lora_only"}),
    "DoRA with biases": ("phi", {}, {"use_dora": True, "bias": "lora_only"}),
    "DoRA of gathered layers": ("phi3", {}, {"use_dora": True}),
    "output layer and norm to save": (
        "phi",
        {},
        {"target_modules": ATTENTION, "modules_to_save": ["lm_head", "input_layernorm"]},
    ),
    "embedding to save": ("llama", TIED, {"target_modules": ATTENTION, "modules_to_save": ["embed_tokens"]}),
    "layers to save": (
        "phi",
        {},
        {"target_modules": ["q_proj"], "modules_to_save": ["k_proj", "dense", "fc2"]},
    ),
    "gathered layers to save": (
        "phi3",
        {},
        {"target_modules": ["o_proj"], "modules_to_save": ["qkv_proj", "down_proj"]},
    ),
    "tied trainable tokens": (
        "llama",
        TIED,
        {"target_modules": ATTENTION, "trainable_token_indices": [5, 30]},
    ),
    "experts and routers": ("mixtral", {}, {}),
    "a router to save": ("mixtral", {}, {"target_modules": ATTENTION, "modules_to_save": ["gate"]}),
}


def answers_of(folder: Path) -> list[list[int]]:
    """The answers of the base, then those of the adapter, from this rank's part of the model."""
    served = AdaptedEngine(open_shared(folder / "model"), ("paged", "contiguous"), timed=False)
    served.load(folder / "adapter", 1)
    sinks = [served.submit(prompt, number) for number in range(2) for prompt in prompts()]
    served.run()
    return [sink.ids for sink in sinks]


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.slow
def test_two_ranks_answer_as_peft(tmp_path: Path) -> None:
    for name, (family, settings, config) in FEATURES.items():
        tiny(family, **settings).save_pretrained(tmp_path / name / "model")
        save_adapter(tmp_path / name / "adapter", family, 1, settings, **config)
    with running_ranks(answers_of, [tmp_path / name for name in FEATURES]) as pipes:
        for name, (family, settings, _) in FEATURES.items():
            first, second = (ours.recv() for ours in pipes)
            assert first == second, (name, first, second)
            plain, adapted = first[: len(prompts())], first[len(prompts()) :]
            choices = peft_choices(tmp_path / name / "adapter", family, prompts(), adapted, settings)
            assert adapted == choices and {len(each) for each in adapted} == {NEW}, name
            assert adapted != plain, f"{name}: the adapter changes the answers"
