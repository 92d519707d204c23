"""A config.json that nobody could make a model of is refused before a byte of weights: it says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from checks import every
from checks.finding import Refused
from checks.machine import Machine
from checks.plan import Plan
from checks.source.config import faults
from checks.source.find import in_folder
from tests import tiny


@pytest.fixture
def verdict(tmp_path: Path, planned: Callable[..., Plan], machine: Machine) -> Callable[..., str]:
    """What is said of the architecture of a tiny Llama, these values of its config.json changed."""

    def judge(**changes: Any) -> str:
        tiny.edit(tiny.llama(tmp_path / "tiny") / "config.json", **changes)
        try:
            plan = planned(in_folder("tiny", tmp_path / "tiny", code=True), code=True)
        except Refused as refusal:
            return refusal.finding.have
        findings = every.run(plan, machine)
        return next(found.have for found in findings if found.name == "architecture")

    return judge


@pytest.mark.parametrize("field", ["num_hidden_layers", "n_layer", "num_experts"])
def test_more_parts_than_any_model_has_are_not_made(verdict: Callable[..., str], field: str) -> None:
    assert f"{field} must be at most " in verdict(**{field: 10**9})


def test_parts_of_an_inner_config_are_counted_too(verdict: Callable[..., str]) -> None:
    assert "vision_config.num_layers must be at most 1000" in verdict(vision_config={"num_layers": 10**6})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", ["llama"]),
        ("auto_map", ["AutoModelForCausalLM"]),
        ("auto_map", {"AutoModelForCausalLM": None}),
        ("text_config", "llama"),
        ("quantization_config", "gptq"),
        ("max_position_embeddings", "many"),
        ("max_position_embeddings", float("inf")),
        ("dtype", "nn"),
        ("torch_dtype", 16),
        ("num_hidden_layers", 0),
    ],
)
def test_a_field_of_another_kind_is_named(verdict: Callable[..., str], field: str, value: Any) -> None:
    said = verdict(**{field: value})
    assert said.startswith(f"a config.json that is wrong: {field} must be ") and repr(value)[:9] in said


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 0},
        {"hidden_size": 4 * 10**30},
        {"num_attention_heads": 0},
        {"num_attention_heads": -1},
        {"head_dim": 0},
        {"vocab_size": 0},
        {"intermediate_size": -1},
        {"hidden_act": "nonsense"},
        {"rope_scaling": {"rope_type": "nonsense"}},
    ],
    ids=str,
)
def test_what_transformers_cannot_make_is_refused(
    verdict: Callable[..., str], changes: dict[str, Any]
) -> None:
    said = verdict(**changes)
    assert said.startswith(("transformers cannot make it: ", "a config.json that is wrong: "))


def test_a_model_that_brings_its_own_code_is_not_made_here(verdict: Callable[..., str]) -> None:
    assert verdict(model_type="own", auto_map={"AutoModelForCausalLM": "own.Model"}) == "its own code"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int8", "float16"])
def test_the_dtype_of_a_config_is_not_what_the_model_is_measured_in(
    verdict: Callable[..., str], dtype: str
) -> None:
    assert verdict(dtype=dtype) == "known"


def test_the_configs_of_all_architectures_pass() -> None:
    wrong = {}
    for kind, config in CONFIG_MAPPING.items():
        try:
            told = config().to_dict()
        except Exception:  # some have no defaults
            continue
        if found := list(faults(told)):
            wrong[kind] = found
    assert wrong == {}
