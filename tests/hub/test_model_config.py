"""A config.json that no model can be built from is refused, with the reason, before weights are fetched."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from checks import preflight
from checks.machine import Machine
from checks.memory.plan import Plan
from hub.model_config import find_faults
from hub.resolve import from_folder
from hub.weight_files import AllowedFiles
from inference.finding import Refused
from tests.tiny_models import tiny


@pytest.fixture
def verdict(tmp_path: Path, planned: Callable[..., Plan], machine: Machine) -> Callable[..., str]:
    """The architecture finding for a tiny Llama with these changes to its config.json."""

    def judge(**changes: Any) -> str:
        tiny.edit(tiny.llama(tmp_path / "tiny") / "config.json", **changes)
        try:
            repository = from_folder("tiny", tmp_path / "tiny", AllowedFiles(trust_remote_code=True))
            plan = planned(repository, trust_remote_code=True)
        except Refused as refusal:
            return refusal.finding.have
        findings = preflight.run_checks(plan, machine)
        return next(finding.have for finding in findings if finding.name == "architecture")

    return judge


@pytest.mark.parametrize("field", ["num_hidden_layers", "n_layer", "num_experts", "num_labels"])
def test_more_parts_than_any_model_has_are_refused(verdict: Callable[..., str], field: str) -> None:
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
        ("max_position_embeddings", True),
        ("max_position_embeddings", -5),
        ("dtype", "nn"),
        ("torch_dtype", 16),
        ("num_hidden_layers", 0),
    ],
)
def test_a_field_of_the_wrong_type_is_named(verdict: Callable[..., str], field: str, value: Any) -> None:
    message = verdict(**{field: value})
    assert message.startswith(f"an invalid config.json: {field} must be ") and repr(value)[:9] in message


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
def test_a_config_that_transformers_cannot_build_is_refused(
    verdict: Callable[..., str], changes: dict[str, Any]
) -> None:
    message = verdict(**changes)
    assert message.startswith(("transformers cannot build it: ", "an invalid config.json: "))


def test_a_model_with_its_own_code_is_not_built_here(verdict: Callable[..., str]) -> None:
    assert verdict(model_type="own", auto_map={"AutoModelForCausalLM": "own.Model"}) == "its own code"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "int8", "float16"])
def test_the_dtype_of_a_config_is_not_used_for_measuring(verdict: Callable[..., str], dtype: str) -> None:
    assert verdict(dtype=dtype) == "known"


def test_the_configs_of_all_architectures_pass() -> None:
    wrong = {}
    for kind, config in CONFIG_MAPPING.items():
        try:
            values = config().to_dict()
        except Exception:  # some configs have no defaults
            continue
        if problems := list(find_faults(values)):
            wrong[kind] = problems
    assert wrong == {}
