"""The trainer's process for runs: its base model as it is served, and replies without memory for them."""

import io
from pathlib import Path

import numpy as np
import pytest

from inference.model.quantization.packed_tensor import PackedTensor
from tests.tiny_models.families import needs_fused
from tests.tuning.trainer.conftest import make_data
from tuning.trainer import server as trainer_server
from tuning.trainer.messages import Arrays, TrainerMessage, data_to_arrays, read_message
from tuning.trainer.server import OUT_OF_MEMORY, TrainerServer, send
from tuning.types import TrainingBase


@needs_fused
@pytest.mark.parametrize("quantize", ["none", "int8", "int4"])
def test_its_weights_are_packed_as_the_server_packs_them(model_folder: Path, quantize: str) -> None:
    base = TrainingBase(
        names=("base",), model_folder=str(model_folder), context=64, dtype="float32", quantize=quantize
    )
    causal = TrainerServer(base).trainer.base.causal
    weight = causal.model.layers[0].mlp.up_proj.weight
    assert isinstance(weight, PackedTensor) is (quantize != "none")


def test_a_reply_that_memory_is_too_small_for_is_a_failure() -> None:
    stream, exabytes = io.BytesIO(), np.broadcast_to(np.float32(0), (1 << 58,))
    send(stream, ({"metrics": {}}, {"0": exabytes}), rss=5)
    stream.seek(0)
    message = read_message(stream)
    assert message and message.header == {"error": OUT_OF_MEMORY, "category": "user", "rss": 5}
    assert read_message(stream) is None


def test_a_process_whose_gpu_is_lost_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    server = TrainerServer(TrainingBase(names=("base",), model_folder="absent", context=64))
    unfinished = TrainerMessage({"verb": "plan"}, {})
    assert server.reply(unfinished)[0]["category"] == "server"
    monkeypatch.setattr(trainer_server, "is_device_lost", lambda: True)
    with pytest.raises(KeyError):
        server.reply(unfinished)


def server_with_a_run(model_folder: Path) -> TrainerServer:
    """A server with the run a."""
    server = TrainerServer(
        TrainingBase(names=("base",), model_folder=str(model_folder), context=64, dtype="float32")
    )
    kinds = {"attention": True, "mlp": False, "output": False}
    server.reply(TrainerMessage({"verb": "create_run", "run": "a", "rank": 4, "seed": 0, "kinds": kinds}, {}))
    return server


def test_a_step_that_leaves_weights_that_are_not_finite_fails(model_folder: Path) -> None:
    server = server_with_a_run(model_folder)
    step = TrainerMessage(
        {"verb": "optim_step", "run": "a", "params": {"learning_rate": 1e6, "weight_decay": 1e6}}, {}
    )
    assert "metrics" in server.reply(step)[0]
    replies = [server.reply(step)[0] for _ in range(4)]
    assert "adam_params made weights that are not finite" in replies[-1]["error"]


def test_a_pass_whose_reply_cannot_be_sent_leaves_no_gradients(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_with_a_run(model_folder)
    header = {"verb": "forward_backward", "run": "a", "max_tokens": 64, "forward_only": False}
    message = TrainerMessage(
        {**header, "loss_fn": "cross_entropy", "config": {}}, data_to_arrays(make_data([8]))
    )

    def refuse(arrays: Arrays) -> None:
        raise MemoryError

    with monkeypatch.context() as short_of_memory:
        short_of_memory.setattr(trainer_server, "check_memory", refuse)
        assert server.reply(message)[0]["error"] == OUT_OF_MEMORY
    weights = list(server.trainer.parameters("a"))
    assert all(weight.grad is None for weight in weights)
    assert "metrics" in server.reply(message)[0] and any(weight.grad is not None for weight in weights)
