"""The cost of passes against the multiplications that torch counts in them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from inference.model.load.meta_model import build_on_meta
from settings.groups import ModelSettings
from tests.tiny_models.families import tiny
from tests.tuning.trainer.conftest import job_spec
from tuning.data.examples import Dataset, Example
from tuning.trainer.datum import Datum
from tuning.trainer.job.job import create_run
from tuning.trainer.job.pass_cost import CAUSAL_SHARE, PassCost, count_multiplied, make_pass_cost
from tuning.trainer.job.remaining_time import RemainingTime
from tuning.trainer.job.schedule import make_schedule
from tuning.trainer.job.training_data import TrainingData, training_data
from tuning.trainer.job.workload import make_workload
from tuning.trainer.model.base_model import BaseModel, load_base
from tuning.trainer.trainer import Trainer
from tuning.types import JobSpec

RUN_ID = "counted"
NUM_TIMED, NUM_ROWS = 3, 24


def attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(CAUSAL_SHARE * sdpa_flop_count(query, *ungrouped(query, key, value)))


def attention_backward_flops(gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(CAUSAL_SHARE * sdpa_backward_flop_count(gradient, query, *ungrouped(query, key, value)))


def ungrouped(query: Sequence[int], *shapes: Sequence[int]) -> Iterator[Sequence[int]]:
    """Shapes (B, H, T, D) with a head for each of the queries: torch 2.11 counts no others."""
    return ((query[0], query[1], *shape[2:]) for shape in shapes)


CPU_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward_flops,
}


class CountedJob:
    """A job whose seconds are the multiplications of its passes."""

    def __init__(self, base: BaseModel, spec: JobSpec) -> None:
        self.cost = make_pass_cost(base.causal, spec.hyperparameters, 1)
        self.trainer = Trainer(
            base,
            layout=self.cost.layout,
            checkpointing=spec.hyperparameters.activation_checkpointing,
        )
        create_run(self.trainer, RUN_ID, spec)

    def count(self, data: Sequence[Datum]) -> int:
        with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter:
            self.trainer.forward_backward(RUN_ID, data, "cross_entropy")
        return int(counter.get_total_flops())


def rows(lengths: Sequence[int], spec: JobSpec) -> TrainingData:
    """Rows whose second half is trained."""
    examples = [
        Example((7,) * size, (0.0,) * (size // 2) + (1.0,) * (size - size // 2), 1) for size in lengths
    ]
    return training_data(Dataset(row_form="chat", examples=examples), "supervised", spec.hyperparameters)


@pytest.mark.parametrize(
    "changes", [{}, {"activation_checkpointing": True}, {"finetuning_type": "full"}], ids=str
)
def test_a_pass_costs_what_it_multiplies(wide_model_folder: Path, changes: dict[str, Any]) -> None:
    spec = job_spec(lora_rank=1, **changes)
    job = CountedJob(load_base(wide_model_folder, ModelSettings(dtype="float32", device="cpu")), spec)
    ratios = [
        job.count(data) / job.cost.of(data, 1)
        for lengths in ((12,) * 4, (50, 40), (120,), (120,) * 2)
        if (data := rows(lengths, spec).data)
    ]
    assert max(ratios) < 1.08 * min(ratios), ratios


def test_packed_weights_and_those_on_no_device_count_alike(wide_model_folder: Path) -> None:
    hyperparameters = job_spec().hyperparameters
    quantized = load_base(
        wide_model_folder, ModelSettings(dtype="float32", device="cpu", quantize="int8")
    ).causal
    expected = make_pass_cost(quantized, hyperparameters, 1)
    assert make_pass_cost(build_on_meta(quantized.config.to_dict()), hyperparameters, 1) == expected


def test_a_token_is_multiplied_with_its_experts() -> None:
    model = tiny("mixtral")
    config = model.config.get_text_config()
    experts = sum(weight.numel() for weight in model.parameters() if weight.dim() == 3)
    ends = 2 * config.vocab_size * config.hidden_size
    dense = sum(weight.numel() for weight in model.parameters() if weight.dim() == 2) - ends
    share = config.num_experts_per_tok / config.num_local_experts
    assert share < 1 and count_multiplied(model, config) == dense + share * experts


def test_heads_may_differ_by_layer() -> None:
    """Those of Gemma 4 do: transformers refuses to name one width."""
    layers = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "vocab_size": 64, "vocab_size_per_layer_input": 64}
    model = build_on_meta(
        {"model_type": "gemma4_text", **layers, **sizes, "head_dim": 8, "global_head_dim": 16}
    )
    assert make_pass_cost(model, job_spec().hyperparameters, 1).pair > 0


@pytest.mark.parametrize(("counts_pairs", "error"), [(True, 0.0), (False, -0.43)])
def test_rows_that_grow_do_not_promise_a_short_job(base: BaseModel, counts_pairs: bool, error: float) -> None:
    """In the file's order the first rows are short: a token of theirs costs less than one of a long row."""
    spec = job_spec(shuffle=False, n_epochs=1, batch_size=2, lora_rank=1)
    job = CountedJob(base, spec)
    cost = job.cost if counts_pairs else PassCost(job.cost.layout)
    data = rows([4 + 400 * number // NUM_ROWS for number in range(NUM_ROWS)], spec)
    schedule = make_schedule(len(data), spec.hyperparameters, seed=0)
    steps = [data.batch(schedule.rows_of(step), lambda _: []).data for step in range(schedule.num_steps)]
    counts = [job.count(step) for step in steps]
    remaining_time = RemainingTime()
    for step in range(NUM_TIMED):
        remaining_time.add_step(cost.of(steps[step], 1), counts[step])
    work = make_workload(spec, schedule, data, cost, has_evaluations=False).after(NUM_TIMED)
    assert remaining_time.estimate(work) / sum(counts[NUM_TIMED:]) - 1 == pytest.approx(error, abs=0.05)
