"""Adapters made by peft answer as transformers and peft do: alone, and with each other and the base."""

from pathlib import Path

import pytest

from tests.lora.adapted_engine import AdaptedEngine, prompts
from tests.lora.peft_adapters import (
    NEW,
    generate_greedily,
    greedy_choices,
    peft_answers,
    peft_choices,
    save_adapter,
)
from tests.tiny_models.families import needs_fused, tiny

RUNNERS = (pytest.param("fused", marks=needs_fused), "paged", "contiguous", "uncached")


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


TIED = {"tie_word_embeddings": True}
ATTENTION = ["q_proj", "v_proj"]
FEATURES = {
    "rslora": ("llama", {}, {"use_rslora": True}),
    "patterns": (
        "llama",
        {},
        {
            "rank_pattern": {"q_proj": 2, r"^model.layers.1.mlp.up_proj": 6},
            "alpha_pattern": {r"layers\.\d.mlp.*": 3},
        },
    ),
    "a layer alone": ("llama", {}, {"target_modules": ATTENTION, "layers_to_transform": [1]}),
    "Conv1D": ("gpt2", {}, {"fan_in_fan_out": True}),
    "merged projections": ("phi3", {}, {}),
    "output layer": ("llama", {}, {"target_modules": ["q_proj", "lm_head"]}),
    "tied output layer": ("llama", TIED, {"target_modules": ["q_proj", "lm_head"]}),
    "embedding": ("llama", {}, {"target_modules": ["q_proj", "embed_tokens"]}),
    "tied embedding": ("llama", TIED, {"target_modules": ["q_proj", "embed_tokens"]}),
    "scaled embedding": ("gemma3_text", {}, {"target_modules": ["q_proj", "embed_tokens"]}),
    "biases": ("phi", {}, {"target_modules": ATTENTION, "bias": "all"}),
    "biases of the layers": ("gpt2", {}, {"bias": "lora_only", "fan_in_fan_out": True}),
    "biases of B": ("phi", {}, {"lora_bias": True}),
    "biases of Qwen": ("qwen2", {}, {"lora_bias": True, "bias": "lora_only"}),
    "DoRA": ("llama", {}, {"use_dora": True}),
    "DoRA of Qwen": (
        "qwen2",
        {},
        {"use_dora": True, "bias": "lora_only", "target_modules": ["q_proj", "o_proj"]},
    ),
    "DoRA with biases": ("phi", {}, {"use_dora": True, "bias": "lora_only"}),
    "DoRA of Conv1D": ("gpt2", {}, {"use_dora": True, "fan_in_fan_out": True}),
    "modules to save": ("llama", {}, {"target_modules": ATTENTION, "modules_to_save": ["lm_head", "norm"]}),
    "embedding to save": ("llama", TIED, {"target_modules": ATTENTION, "modules_to_save": ["embed_tokens"]}),
    "linear layers to save": (
        "gpt2",
        {},
        {"target_modules": ["c_attn"], "modules_to_save": ["c_fc", "ln_1"]},
    ),
    "trainable tokens": (
        "llama",
        {},
        {"target_modules": ATTENTION, "trainable_token_indices": [5, 30, 31, 60]},
    ),
    "tied trainable tokens": (
        "llama",
        TIED,
        {"target_modules": ATTENTION, "trainable_token_indices": [5, 30]},
    ),
    "experts and routers": ("mixtral", {}, {}),
    "experts with biases": ("gpt_oss", {}, {}),
    "some experts' parameters": (
        "mixtral",
        {},
        {
            "target_modules": ["q_proj"],
            "target_parameters": ["layers.0.mlp.experts.down_proj", "layers.1.mlp.experts.gate_up_proj"],
            "rank_pattern": {"experts.down_proj": 2},
        },
    ),
    "a router to save": ("mixtral", {}, {"target_modules": ATTENTION, "modules_to_save": ["gate"]}),
    "sliding windows": ("mistral", {}, {}),
    "encoder and decoder": ("t5", {}, {"target_modules": ["q", "k", "v", "o", "wi", "wo"]}),
    "a vision tower too": ("gemma3", {}, {}),
    "recurrent states": ("jamba", {}, {"target_modules": ["q_proj", "in_proj", "out_proj", "up_proj"]}),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_of_peft_answers_as_peft(tmp_path: Path, feature: str) -> None:
    family, settings, config = FEATURES[feature]
    folders = [save_adapter(tmp_path / str(seed), family, seed, settings, **config) for seed in range(2)]
    served = AdaptedEngine(tiny(family, **settings))
    for number, folder in enumerate(folders, 1):
        served.load(folder, number)
    together = [[served.submit(prompt, number) for number in range(3)] for prompt in prompts()]
    served.run()
    base, *adapted = [[each.ids for each in sinks] for sinks in zip(*together, strict=True)]
    assert greedy_choices(tiny(family, **settings), prompts(), base) == base
    for folder, outputs in zip(folders, adapted, strict=True):
        assert peft_choices(folder, family, prompts(), outputs, settings) == outputs
    assert all(len(ids) == NEW for outputs in (base, *adapted) for ids in outputs)
    assert len(set(map(str, (base, *adapted)))) == 3, "the adapters change the answers"


@pytest.mark.parametrize("kind", ["contiguous", "uncached"])
def test_experts_of_several_adapters_answer_as_peft_in_other_runners(tmp_path: Path, kind: str) -> None:
    """test_a_feature_of_peft_answers_as_peft runs the paged runner."""
    folders = [save_adapter(tmp_path / str(seed), "mixtral", seed) for seed in range(2)]
    served = AdaptedEngine(tiny("mixtral"), (kind,))
    for number, folder in enumerate(folders, 1):
        served.load(folder, number)
    together = [[served.submit(prompt, number) for number in range(3)] for prompt in prompts()]
    served.run()
    for index, folder in enumerate(folders, 1):
        assert [each[index].ids for each in together] == peft_answers(folder, "mixtral", prompts())
    assert not any(adapter.unbatched for adapter in served.runner.adapters.values())


@pytest.mark.parametrize(("target", "is_unbatched"), [("kv_b_proj", True), ("o_proj", False)])
def test_an_adapter_of_cached_latents_has_steps_of_its_own(
    tmp_path: Path, target: str, is_unbatched: bool
) -> None:
    """kv_b_proj expands the latents of all tokens of a row in every step."""
    folder = save_adapter(tmp_path, "deepseek_v3", 0, target_modules=[target])
    served = AdaptedEngine(tiny("deepseek_v3"), ("contiguous",), timed=False)
    served.load(folder, 1)
    assert served.runner.adapters[1].unbatched is is_unbatched


@needs_fused
@pytest.mark.parametrize(
    "feature",
    [
        "rslora",
        "merged projections",
        "output layer",
        "biases of Qwen",
        "DoRA of Qwen",
        "a vision tower too",
    ],
)
def test_native_code_computes_what_changes_matrices(tmp_path: Path, feature: str) -> None:
    """The answers are compared in test_a_feature_of_peft_answers_as_peft."""
    family, settings, config = FEATURES[feature]
    served = AdaptedEngine(tiny(family, **settings), ("fused",))
    served.load(save_adapter(tmp_path, family, 1, settings, **config), 1)
    assert served.runner.adapters[1].native is not None and not served.runner.modules.forwards
