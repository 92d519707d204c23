"""Memory refused to a training run: a failure in words, and the next request is as if it had not been."""

import pytest
import torch
from peft.tuners.lora.layer import LoraLayer

from inference.process.memory.memory_shortage import TOO_LITTLE_MEMORY
from tests.tuning.jobs.failing_once import failing_once
from tests.tuning.runs.conftest import RunClient, make_options, wait_for
from tests.tuning.runs.passes import PASS, STEP, loss
from tuning.runs import executor
from tuning.runs.types import Failure, RunRequest
from tuning.trainer import compute_batch, trainer
from tuning.trainer.server import OUT_OF_MEMORY

PLACES = [
    (executor, "data_to_arrays", PASS, TOO_LITTLE_MEMORY),
    (trainer, "lay_out", PASS, OUT_OF_MEMORY),
    (compute_batch, "backward_by_blocks", PASS, OUT_OF_MEMORY),
    (trainer, "take_step", STEP, OUT_OF_MEMORY),
]


@pytest.mark.parametrize(("owner", "name", "request_", "message"), PLACES)
def test_a_run_without_memory_is_as_before(
    owner: object,
    name: str,
    request_: RunRequest,
    message: str,
    client: RunClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = 700 + 2 * [place[1] for place in PLACES].index(name)
    run_id, other_id = client.create_run(number), client.create_run(number + 1)
    for each in (run_id, other_id):
        client.call(each, PASS)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing_once(getattr(owner, name), [], MemoryError()))
        assert client.fail(run_id, request_).message == message
    for each in (run_id, other_id):
        client.call(each, STEP)
    assert loss(client.call(run_id, PASS)) == loss(client.call(other_id, PASS))


def test_a_run_that_memory_was_too_small_for_is_gone(
    client: RunClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_id = client.create_run(720)
    with monkeypatch.context() as patch:
        patch.setattr(LoraLayer, "update_layer", failing_once(LoraLayer.update_layer, [], MemoryError()))
        failure = wait_for(client.runs.create_run(client.session_id, 721, make_options()))
    assert isinstance(failure, Failure) and failure.message == OUT_OF_MEMORY
    run_id = client.create_run(722)
    assert loss(client.call(run_id, PASS)) == loss(client.call(other_id, PASS))


def test_moments_that_memory_was_too_small_for_are_allocated_again(
    client: RunClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = client.create_run(730)
    client.call(run_id, PASS)
    zeros_like, calls = torch.zeros_like, []

    def refuse(*args: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError
        return zeros_like(*args, **options)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros_like", refuse)
        assert client.fail(run_id, STEP).message == OUT_OF_MEMORY
    assert client.call(run_id, STEP).metrics["step:max"] == 1
