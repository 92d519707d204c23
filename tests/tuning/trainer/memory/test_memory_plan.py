"""The memory plan: its terms grow as memory does, and a job that does not fit is told what it needs."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from tests.tiny_models import tiny
from tests.tuning.trainer.conftest import job_spec
from tuning.data.examples import Dataset, Example
from tuning.jobs.draft import Draft, make_spec
from tuning.open_service import free_bytes
from tuning.trainer.memory import memory_plan
from tuning.trainer.memory.memory_plan import TrainingPlan, check_memory, largest_pass, plan_memory
from tuning.types import JobSpec, TrainingBase

CONFIG: dict[str, Any] = {"model_type": "llama", **tiny.LLAMA, "hidden_size": 128, "num_hidden_layers": 4}


@cache
def plan(num_tokens: int = 1024, **changes: Any) -> TrainingPlan:
    return plan_memory(CONFIG, job_spec(**changes), num_tokens)


def test_the_step_grows_with_the_tokens() -> None:
    few, many = plan(1024), plan(2048)
    assert many.step == pytest.approx(2 * few.step, rel=0.01)
    assert (many.weights, many.adapter) == (few.weights, few.adapter)


def test_weights_are_counted_in_the_dtype_of_the_trainer() -> None:
    assert plan_memory(CONFIG, replace(job_spec(), dtype="bfloat16"), 64).weights == plan().weights // 2


@pytest.mark.parametrize(
    ("dtype", "native", "num_bytes"),
    [("float32", True, 4 + 4), ("bfloat16", True, 2 + 2), ("bfloat16", False, 4 + 4 + 2)],
)
def test_a_logit_is_counted_with_its_gradient_or_in_torch_with_its_probability(
    monkeypatch: pytest.MonkeyPatch, dtype: str, native: bool, num_bytes: int
) -> None:
    monkeypatch.setattr(memory_plan, "available", lambda: native)
    spec = replace(job_spec(), dtype=dtype)
    few, many = (plan_memory(CONFIG | {"vocab_size": size}, spec, 512).step for size in (16_000, 32_000))
    assert many - few == 16_000 * 512 * num_bytes


def test_the_adapter_is_its_weights_and_their_moments() -> None:
    """Rank 4 on q, k, v, o, gate, up and down of four layers; 12 bytes for each trained weight."""
    shapes = [(128, 128), (128, 64), (128, 64), (128, 128), (128, 64), (128, 64), (64, 128)]
    trained = 4 * sum(4 * (inputs + outputs) for inputs, outputs in shapes)
    assert plan().adapter == 12 * trained


@pytest.mark.parametrize(("dtype", "factor"), [("float32", 8), ("bfloat16", 8 + 4)])
def test_all_weights_have_moments_gradients_and_masters(dtype: str, factor: int) -> None:
    spec = replace(job_spec(finetuning_type="full"), dtype=dtype)
    full = plan_memory(CONFIG, spec, 1)
    num_weights = plan().weights // 4
    assert full.optimizer == factor * num_weights and full.adapter == 0
    assert 4 * num_weights < full.step < 6 * num_weights
    assert list(full.terms) == ["weights", "programs", "optimizer", "step"]


def test_accumulated_gradients_add_to_the_activations() -> None:
    once = plan(finetuning_type="full")
    often = plan(finetuning_type="full", gradient_accumulation_steps=2)
    assert often.step > once.step + 3 * (plan().weights - CONFIG["vocab_size"] * 128 * 4) // 4


def test_checkpointing_and_quantization_save_memory() -> None:
    assert plan(activation_checkpointing=True).step < 0.6 * plan().step
    quantized = plan(quantize_base=True)
    assert quantized.weights < 0.4 * plan().weights
    assert quantized.weights + quantized.loading == plan().weights


def test_packed_weights_are_trained_in_float32_whatever_their_dtype() -> None:
    spec = replace(job_spec(quantize_base=True), dtype="bfloat16")
    stored_in_half, stored_in_full = (
        plan_memory(CONFIG, each, 1024) for each in (spec, replace(spec, dtype="float32"))
    )
    assert stored_in_half.terms == stored_in_full.terms
    assert stored_in_half.loading < stored_in_full.loading, "weights are loaded in their own dtype"


def test_a_gpu_packs_into_four_bits_as_weights_arrive() -> None:
    """The rows fill whole blocks of words: shorter ones are padded."""
    config = CONFIG | {"hidden_size": 256, "intermediate_size": 256}
    spec = replace(job_spec(quantize_base=True, lora_rank=8), dtype="float32")
    on_cpu, on_gpu = (plan_memory(config, replace(spec, device=device), 1024) for device in ("cpu", "cuda"))
    assert on_gpu.weights < 0.8 * on_cpu.weights and on_gpu.loading == 0
    assert on_gpu.programs > on_cpu.programs


def test_trainers_take_the_device_of_the_server_although_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    free = [5_000_000_000, 4_000_000_000]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free[gpu], 80_000_000_000))
    base = TrainingBase(names=("m",), model_folder="m", context=64, device="cpu")
    assert training_spec(base).device == "cpu"
    assert (
        plan_memory(CONFIG, replace(job_spec(), device="cpu"), 64).programs
        < plan_memory(CONFIG, job_spec(), 64).programs
    )
    assert free_bytes(serving_bytes=10**12, device="cpu") == 0
    assert free_bytes(serving_bytes=10**12, device="cuda") == 5_000_000_000
    assert free_bytes(serving_bytes=10**12, device="cuda", num_processes=2) == 4_000_000_000


def training_spec(base: TrainingBase) -> JobSpec:
    draft = Draft(
        job_id="job",
        method="supervised",
        hyperparameters={},
        seed=0,
        base=base,
        initial_adapter="",
        training_file="",
        validation_file="",
        free_bytes=0,
    )
    return make_spec(draft, job_spec().hyperparameters)


def test_dora_keeps_more_than_lora_but_not_by_the_token() -> None:
    lora, dora = (
        plan(2048, use_dora=value).step - plan(1024, use_dora=value).step for value in (False, True)
    )
    assert plan(use_dora=True).step > plan().step
    assert dora < 2 * lora


def test_a_job_that_does_not_fit_is_refused_with_need_and_have() -> None:
    needed = plan().total
    assert check_memory(plan(), needed).ok
    finding = check_memory(plan(), 100_000_000, fix="batch_size 1")
    assert not finding.ok and finding.have == "100.0 MB free" and finding.fix == "batch_size 1"
    assert "weights" in finding.need and "step" in finding.need


def test_a_pass_has_the_longest_rows_of_a_batch() -> None:
    def examples(*lengths: int) -> list[Example]:
        return [Example((1,) * length, (1.0,) * length, 1) for length in lengths]

    spec = job_spec(batch_size=4)
    assert largest_pass(Dataset(row_form="chat", examples=examples(11, 6)), spec) == 2 * 10
    assert largest_pass(Dataset(row_form="chat", examples=examples(11, *[5] * 9)), spec) == 4 * 10
    assert largest_pass(Dataset(row_form="chat", examples=examples(9001)), spec) == 9000


def test_processes_share_the_rows_of_a_step_and_need_as_much_each() -> None:
    dataset = Dataset(row_form="chat", examples=[Example((1,) * 101, (1.0,) * 101, 1)] * 20)
    counts = (1, 2, 3, 16)
    passes = [largest_pass(dataset, replace(job_spec(batch_size=8), num_processes=each)) for each in counts]
    assert passes == [800, 400, 300, 100]
    accumulated = replace(job_spec(batch_size=4, gradient_accumulation_steps=2), num_processes=2)
    assert largest_pass(dataset, accumulated) == 400
    one = plan()
    two = plan_memory(CONFIG, replace(job_spec(), num_processes=2), 1024)
    assert two.terms == one.terms
    finding = check_memory(two, 123_000_000)
    assert finding.need.startswith("2 x ") and finding.have == "2 x 123.0 MB free"
