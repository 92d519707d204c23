"""Steps with adapters beside captured ones: a graph computes the base, whatever ran before it."""

from collections.abc import Sequence

import pytest
import torch

from inference.model.lora.runner import AdapterRunner
from inference.model.paged import cuda
from inference.model.paged.cuda_graphs import GraphRunner
from inference.model.paged.runner import PagedRunner
from tests.model.lora.random_adapters import merged, random_adapter
from tests.model.paged.recorded_runner import CLOSE, one_token_rows, record_runner, runner_of, trace
from tests.tiny_models.families import tiny

STEPS = ([0, 0, 0], [1, 1, 1], [0, 0, 0], [1, 0, 2], [2, 1, 2], [0, 0, 0])  # adapters of the rows


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_replayed_steps_and_steps_with_adapters_take_turns(device: str) -> None:
    model = tiny("llama").to(device)
    recorder = trace if device == "cpu" else cuda.CudaGraphRecorder(model.device)
    runner = AdapterRunner(model, record_runner(model, recorder))
    adapters = {number: random_adapter(model, number) for number in (1, 2)}
    for adapter in adapters.values():
        runner.add(adapter)
    expected = {
        number: runner_of(PagedRunner, merged(device, adapters.get(number))).forward(one_token_rows(3))
        for number in range(3)
    }
    for adapter_ids in STEPS:
        assert largest_error(runner, adapter_ids, expected) < CLOSE
    assert (expected[0] - expected[1]).std() > CLOSE * expected[0].std()
    assert not isinstance(runner.delta_runner, GraphRunner), "the base's graphs compute no adapter"


def largest_error(
    runner: AdapterRunner, adapter_ids: Sequence[int], expected: dict[int, torch.Tensor]
) -> float:
    """The error of a step in which the rows have these adapters, in standard deviations of the logits."""
    batch = one_token_rows(len(adapter_ids))
    if any(adapter_ids):
        batch.adapter_ids.extend(adapter_ids)
    rows = torch.stack([expected[number][row] for row, number in enumerate(adapter_ids)])
    return float((runner.forward(batch) - rows).abs().max() / rows.std())
