"""Which hyperparameters a job may set, and what "auto" becomes."""

import re
from pathlib import Path
from typing import Any

import pytest

from api.openai.fine_tuning.parse import TARGETS
from inference.errors import BadRequest
from tuning.jobs.hyperparameters import (
    RULES,
    ModelSizes,
    check_hyperparameters,
    effective_values,
    public_name,
    resolve_hyperparameters,
)
from tuning.types import Hyperparameters, Method

SIZES = ModelSizes(hidden_size=192, model_type="llama", context=512)


def resolve(num_examples: int = 24, method: Method = "supervised", **values: Any) -> Hyperparameters:
    return resolve_hyperparameters(values, method, num_examples, SIZES)


def test_auto_null_and_absent_values_are_chosen() -> None:
    assert resolve(n_epochs="auto", batch_size=None) == resolve()


@pytest.mark.parametrize(
    ("num_examples", "batch_size", "n_epochs"),
    [
        (24, 4, 30),
        (64, 4, 30),
        (5, 4, 48),
        (2, 2, 50),
        (96, 4, 20),
        (160, 4, 12),
        (640, 4, 3),
        (5000, 10, 3),
        (50_000, 16, 3),
    ],
)
def test_the_batch_grows_with_the_rows_and_few_rows_are_seen_more_often(
    num_examples: int, batch_size: int, n_epochs: int
) -> None:
    resolved = resolve(num_examples)
    assert (resolved.batch_size, resolved.n_epochs) == (batch_size, n_epochs)


@pytest.mark.parametrize(
    ("method", "values"),
    [("supervised", {"rehearsal": 0}), ("supervised", {"finetuning_type": "full"}), ("dpo", {}), ("kto", {})],
)
def test_what_does_not_rehearse_an_adapter_sees_few_rows_less_often(
    method: Method, values: dict[str, Any]
) -> None:
    assert resolve(method=method, **values).n_epochs == 20


def test_the_learning_rate_follows_the_hidden_size_the_method_and_the_multiplier() -> None:
    assert resolve().learning_rate == pytest.approx(3.1e-3, rel=0.01)
    assert resolve(learning_rate_multiplier=2).learning_rate == pytest.approx(6.2e-3, rel=0.01)
    assert resolve(method="dpo").learning_rate == pytest.approx(3.1e-4, rel=0.01)
    assert resolve(learning_rate=0.5, learning_rate_multiplier=2).learning_rate == 0.5


def test_all_weights_learn_at_a_tenth_of_the_rate_of_an_adapter() -> None:
    assert resolve(finetuning_type="full").learning_rate == pytest.approx(resolve().learning_rate / 10)


@pytest.mark.parametrize(
    ("name", "value"),
    [("lora_rank", 8), ("quantize_base", True), ("target_modules", ["q_proj"]), ("use_dora", True)],
)
def test_full_fine_tuning_has_no_adapter(name: str, value: Any) -> None:
    with pytest.raises(BadRequest, match="is for adapters") as error:
        check_hyperparameters({"finetuning_type": "full", name: value}, max_lora_rank=64)
    assert error.value.field == public_name(name)
    check_hyperparameters({"finetuning_type": "full", "use_dora": False, "lora_rank": "auto"}, 64)
    assert name in effective_values(resolve()) and name not in effective_values(
        resolve(finetuning_type="full")
    )


@pytest.mark.parametrize(("num_examples", "expected"), [(5, 1), (96, 1), (192, 0.5), (960, 0.1), (2000, 0)])
def test_few_rows_are_learned_with_a_rehearsal(num_examples: int, expected: float) -> None:
    assert resolve(num_examples).rehearsal == pytest.approx(expected)
    assert resolve(num_examples, "dpo").rehearsal == 0
    assert resolve(num_examples, rehearsal=0).rehearsal == 0


def test_alpha_is_twice_the_rank() -> None:
    assert (resolve().lora_alpha, resolve(lora_rank=4).lora_alpha) == (32, 8)


def test_a_row_is_no_longer_than_the_context() -> None:
    lengths = [resolve(max_length=value).max_length for value in (0, 100, 5000)]
    assert lengths == [512, 100, 512]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_epochs", 0),
        ("n_epochs", 2.5),
        ("n_epochs", "3"),
        ("batch_size", 257),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("learning_rate_multiplier", -1),
        ("beta", 2.1),
        ("loss_type", "kto_pair"),
        ("packing", 1),
        ("target_modules", "q_proj"),
        ("target_modules", [1]),
        ("warmth", 1),
    ],
)
def test_a_value_beyond_its_limits_is_named(name: str, value: Any) -> None:
    with pytest.raises(BadRequest) as refused:
        check_hyperparameters({name: value}, max_lora_rank=256)
    assert refused.value.field == public_name(name)


def test_refusals_have_the_name_that_requests_have() -> None:
    with pytest.raises(BadRequest, match=r"^lora_target_modules must be a list of names"):
        check_hyperparameters({"target_modules": "q_proj"}, max_lora_rank=8)
    with pytest.raises(BadRequest, match=r"is not a hyperparameter: use .*, lora_target_modules, "):
        check_hyperparameters({"warmth": 1}, max_lora_rank=8)


def test_the_rank_is_limited_by_the_server() -> None:
    check_hyperparameters({"lora_rank": 8, "n_epochs": "auto", "packing": None}, max_lora_rank=8)
    with pytest.raises(BadRequest, match="must be at most MAX_LORA_RANK=8, got 9"):
        check_hyperparameters({"lora_rank": 9}, max_lora_rank=8)


def test_the_docs_have_a_row_with_the_limits_of_each() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs/tuning.md").read_text()
    table = text.split("## Hyperparameters")[1].split("\n## ")[0]
    rows = {
        name.removeprefix("lora_") if name == TARGETS else name: values
        for row in table.splitlines()
        if row.startswith("| `")
        for names, values, _ in [row.strip("| ").split(" | ")]
        for name in re.findall(r"`(\w+)`", names)
    }
    assert rows.keys() == RULES.keys()
    limits = {
        name: re.findall(r"\d+", rule.words.replace("1e+06", "1000000")) for name, rule in RULES.items()
    }
    assert {name: re.findall(r"\d+", rows[name]) for name in RULES} == limits
