"""The estimate of a job's time: from two shallow models to all layers, tokens, steps and evaluations.

The clock counts layers that were computed, so the estimate is how many layers the job computes.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaAttention

from tests.tiny_models import tiny
from tests.tuning.trainer.conftest import job_spec
from tuning.data.examples import Dataset, Example, PreferencePair
from tuning.trainer.job.remaining_time import EVALUATION_SHARE
from tuning.trainer.job.step_time import estimate_seconds
from tuning.trainer.job.training_data import TrainingData, training_data
from tuning.types import Method

LAYERS = 5
CONFIG: dict[str, Any] = {"model_type": "llama", **tiny.LLAMA, "num_hidden_layers": LAYERS}
EXAMPLE = Example((1, 2, 3, 4, 5), (0.0, 0.0, 1.0, 1.0, 1.0), 1)


class LayerCount:
    """A clock that goes on by 1 whenever the attention of a layer is computed."""

    def __init__(self) -> None:
        self.total = 0.0

    def __call__(self) -> float:
        return self.total

    def count(self, module: torch.nn.Module, *_: Any) -> None:
        self.total += isinstance(module, LlamaAttention)


@pytest.fixture
def clock() -> Iterator[LayerCount]:
    layer_count = LayerCount()
    hook = torch.nn.modules.module.register_module_forward_pre_hook(layer_count.count)
    yield layer_count
    hook.remove()


def rows(method: Method = "supervised", count: int = 4) -> TrainingData:
    pairs = [PreferencePair(EXAMPLE, EXAMPLE, 1)] * count
    examples = [EXAMPLE] * count
    is_supervised = method == "supervised"
    dataset = (
        Dataset(row_form="chat", examples=examples) if is_supervised else Dataset(row_form="", pairs=pairs)
    )
    return training_data(dataset, method, job_spec().hyperparameters)


def test_every_layer_of_every_step_counts(clock: LayerCount) -> None:
    """Two rows a step, so two steps an epoch, and three epochs."""
    assert estimate_seconds(CONFIG, job_spec(), rows(), None, clock) == pytest.approx(2 * 3 * LAYERS)


def test_layers_that_are_computed_again_count_twice(clock: LayerCount) -> None:
    spec = job_spec(activation_checkpointing=True)
    assert estimate_seconds(CONFIG, spec, rows(), None, clock) == pytest.approx(2 * 2 * 3 * LAYERS)


def test_a_step_of_pairs_is_one_pass_over_both(clock: LayerCount) -> None:
    spec = job_spec("dpo", max_steps=4)
    assert estimate_seconds(CONFIG, spec, rows("dpo"), None, clock) == pytest.approx(4 * LAYERS)


def test_evaluations_take_their_share(clock: LayerCount) -> None:
    """Three evaluations of twice the tokens of a step."""
    estimated_s = estimate_seconds(CONFIG, job_spec(), rows(), rows(), clock)
    assert estimated_s == pytest.approx((2 * 3 + 3 * 2 * EVALUATION_SHARE) * LAYERS)
