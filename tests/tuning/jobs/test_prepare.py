"""The validation of a job's files with the tokenizer and template of models/demo."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from transformers import GPT2Config, GPT2LMHeadModel, T5Config

from inference.errors import BadRequest
from tests.tiny_models import tiny
from tests.tuning.jobs.prepared_rows import BASE, ROWS, prepare_rows, row
from tuning.jobs import prepare as prepare_module
from tuning.jobs.draft import Draft, make_spec
from tuning.trainer.memory.memory_plan import TrainingPlan, plan_memory
from tuning.types import Hyperparameters, JobSpec, TrainingBase

Plans = dict[tuple[str, JobSpec, int], TrainingPlan]


@pytest.fixture(scope="module")
def plans() -> Plans:
    return {}


@pytest.fixture(autouse=True)
def plan_once(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan the memory of equal jobs once for all tests: a job that does not fit has many plans."""

    def plan(config: dict[str, Any], spec: JobSpec, num_tokens: int) -> TrainingPlan:
        key = repr(config), dataclasses.replace(spec, training_file="", validation_file=""), num_tokens
        if key not in plans:
            plans[key] = plan_memory(config, spec, num_tokens)
        return plans[key]

    monkeypatch.setattr(prepare_module, "plan_memory", plan)


def test_rows_are_counted_and_auto_becomes_numbers(tmp_path: Path) -> None:
    prepared = prepare_rows(tmp_path, *ROWS)
    assert prepared.error is None and prepared.spec
    assert (prepared.num_examples, prepared.num_cut, prepared.num_total_steps) == (24, 0, 180)
    assert 0 < prepared.num_trained_tokens < prepared.num_tokens
    hyperparameters = prepared.spec.hyperparameters
    assert (hyperparameters.n_epochs, hyperparameters.batch_size, hyperparameters.max_length) == (30, 4, 512)
    assert hyperparameters.learning_rate == pytest.approx(3.1e-3, rel=0.01)


def test_the_first_rows_are_shown_with_what_is_trained(tmp_path: Path) -> None:
    (shown_row,) = prepare_rows(tmp_path, *ROWS).shown_rows
    texts = {segment.is_trained: segment.text for segment in shown_row.segments}
    assert texts[True] == "Person 0 is a baker.<|eot_id|>" and "Who is person 0?" in texts[False]


def test_a_row_that_is_too_long_is_counted(tmp_path: Path) -> None:
    prepared = prepare_rows(tmp_path, *ROWS, row("a " * 600, "b " * 600))
    assert (prepared.num_examples, prepared.num_cut) == (24, 1)
    assert "line 25" in prepared.messages[0]


def test_an_invalid_row_is_named(tmp_path: Path) -> None:
    error = prepare_rows(tmp_path, *ROWS, {"messages": [{"role": "user", "content": "x"}]}).error
    assert error and (error.code, error.param) == ("invalid_training_file", "training_file")
    assert error.message.startswith("Line 25: ")


def test_the_validation_file_is_checked_as_well(tmp_path: Path) -> None:
    error = prepare_rows(tmp_path, *ROWS, validation=[ROWS[0], {"text": "x"}]).error
    assert error and (error.code, error.param) == ("invalid_validation_file", "validation_file")
    assert error.message.startswith("Line 2: ")


def test_a_method_needs_its_rows(tmp_path: Path) -> None:
    error = prepare_rows(tmp_path, *ROWS, method="dpo").error
    assert error and error.code == "invalid_training_file" and error.message.startswith("Line 1: ")


def test_a_model_whose_config_has_names_of_its_own_is_trained(tmp_path: Path) -> None:
    """GPT-2's width is n_embd, and its number of layers n_layer."""
    config = GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=64, vocab_size=320)
    folder = tiny.save_model(tmp_path / "gpt2", GPT2LMHeadModel, config)
    base = TrainingBase(names=("gpt2",), model_folder=str(folder), context=64)
    prepared = prepare_rows(tmp_path, *ROWS, base=base)
    assert prepared.error is None and prepared.spec and prepared.estimated_s
    assert prepared.spec.hyperparameters.learning_rate == pytest.approx(1.26e-2, rel=0.01)


def test_a_model_with_an_encoder_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "t5").mkdir()
    T5Config(d_model=32, num_layers=1).save_pretrained(tmp_path / "t5")
    base = TrainingBase(names=("t5",), model_folder=str(tmp_path / "t5"), context=64)
    error = prepare_rows(tmp_path, *ROWS, base=base).error
    assert error and error.message == "model cannot be fine-tuned here: only decoder models can, got 't5'"


def test_a_model_without_a_memory_plan_is_trained_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no such operator on meta")

    monkeypatch.setattr(prepare_module, "plan_memory", fail)
    prepared = prepare_rows(tmp_path, *ROWS)
    assert prepared.error is None and prepared.spec and prepared.memory is None and not prepared.memory_plan
    expected = "The memory of this training is not known: RuntimeError: no such operator on meta"
    assert expected in prepared.messages


def test_a_job_that_does_not_fit_says_what_does(tmp_path: Path) -> None:
    prepared = prepare_rows(tmp_path, *ROWS, batch_size=16)
    need = sum(prepared.memory_plan.values())
    error = prepare_rows(tmp_path, *ROWS, batch_size=16, free_bytes=need - 1_000_000).error
    assert error and error.code == "insufficient_memory"
    assert error.message.endswith(": use batch_size=8, gradient_accumulation_steps=2")
    hopeless = prepare_rows(tmp_path, *ROWS, free_bytes=1000)
    assert hopeless.memory and not hopeless.memory.ok and "a smaller max_length" in hopeless.memory.fix


FULL = {"finetuning_type": "full"}


def test_a_full_job_that_does_not_fit_is_offered_an_adapter(tmp_path: Path) -> None:
    need = sum(prepare_rows(tmp_path, *ROWS, **FULL).memory_plan.values())
    small = {"batch_size": 1, "activation_checkpointing": True}
    adapter = sum(prepare_rows(tmp_path, *ROWS, **small).memory_plan.values())
    assert adapter < need
    error = prepare_rows(tmp_path, *ROWS, **FULL, **small, free_bytes=adapter).error
    assert error and error.message.endswith(": use finetuning_type=lora")


def test_the_disk_of_a_full_job_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "plan_disk", lambda config, spec: 1 << 60)
    error = prepare_rows(tmp_path, *ROWS, **FULL).error
    assert error and error.code == "insufficient_disk" and "TUNING_DIR has" in error.message


@pytest.mark.parametrize("kind", ["GGUF", "quantized"])
def test_quantized_weights_are_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    config = {"quantization_config": {"quant_method": "fp8"}} if kind == "quantized" else {}
    folder = "m/model.gguf" if kind == "GGUF" else "m"
    base = TrainingBase(names=("demo",), model_folder=folder, context=512)
    monkeypatch.setattr(prepare_module, "is_gguf", lambda path: path.suffix == ".gguf")
    with pytest.raises(BadRequest, match=f"must be lora: the model is .*{kind}"):
        prepare_module.check_trainable(config, full_draft(base))
    prepare_module.check_trainable(config, dataclasses.replace(full_draft(base), hyperparameters={}))


@pytest.mark.parametrize(
    ("quantize", "values", "maps"),
    [
        ("none", {}, True),
        ("none", {"quantize_base": True}, False),
        ("none", FULL, False),
        ("int8", {"quantize_base": True}, True),
        ("int8", {}, False),
        ("int4", {"quantize_base": True}, False),
    ],
)
def test_a_job_maps_the_served_weights_if_it_trains_over_the_same(
    quantize: str, values: dict[str, Any], maps: bool
) -> None:
    served: dict[str, Any] = {"weight_file": "/cache/weights", "shares_weights": True}
    base = dataclasses.replace(BASE, device="cpu", quantize=quantize, rope_factor=2.0, **served)
    hyperparameters = Hyperparameters(n_epochs=1, batch_size=1, learning_rate=1.0, **values)
    spec = prepare_module.with_weights(make_spec(full_draft(base), hyperparameters), base)
    assert (spec.weight_file, spec.shares_weights) == (("/cache/weights", True) if maps else ("", False))
    assert (spec.model_folder, spec.rope_factor) == (base.model_folder, 2.0)


def full_draft(base: TrainingBase) -> Draft:
    return Draft(
        job_id="job",
        method="supervised",
        hyperparameters=FULL,
        seed=1,
        base=base,
        free_bytes=0,
        initial_adapter="",
        training_file="",
        validation_file="",
    )
