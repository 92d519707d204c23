"""Two processes train as one does: passes, steps, jobs and runs, on a tiny Llama over gloo."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from inference.errors import BadRequest, Internal
from settings.groups import ModelSettings
from tests.tuning.trainer.conftest import job_spec, make_data, weighted_data
from tests.tuning.trainer.job.running import StopAfter, dataset, losses, of_type
from tuning.job_files import PROGRESS_FILE
from tuning.trainer.data_parallel.trainer import DataParallelTrainer, divide_rows, open_trainer
from tuning.trainer.datum import Datum
from tuning.trainer.job.job import TrainingJob
from tuning.trainer.job.progress import ProgressLog
from tuning.trainer.job.training_data import training_data
from tuning.trainer.messages import TrainerMessage, data_to_arrays
from tuning.trainer.micro_batches import Layout
from tuning.trainer.model.base_model import load_base
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.server import TrainerServer
from tuning.trainer.trainer import Trainer
from tuning.trainer.whole_passes import PassInterrupted, whole_pass
from tuning.types import JobSpec, Method, TrainingBase

DATA = weighted_data([9, 4, 12, 7, 5])  # 29 targets in 5 rows, which two processes cannot halve
PAIRS = make_data(
    [9, 4, 12, 7, 5, 6], weights=lambda random: 1.0, reference_logprobs=lambda random: random.uniform(-7, -4)
)
STEP = AdamParams(learning_rate=1e-2)
LAYOUT = Layout(max_rows=2)  # several passes for each process
Line = dict[str, Any]


class Trainers(NamedTuple):
    """Trainers of the same model, in one process and in two."""

    single: Trainer
    parallel: DataParallelTrainer


@pytest.fixture(scope="module")
def trainers(model_folder: Path) -> Iterator[Trainers]:
    num_threads = torch.get_num_threads()
    single, own = (load_base(model_folder, ModelSettings(dtype="float32", device="cpu")) for _ in range(2))
    spec = replace(job_spec(), model_folder=str(model_folder), num_processes=2)
    parallel = open_trainer(own, spec, "none", layout=LAYOUT, scores_masked=True)
    assert isinstance(parallel, DataParallelTrainer)
    yield Trainers(Trainer(single, layout=LAYOUT, scores_masked=True), parallel)
    parallel.close()
    torch.set_num_threads(num_threads)


def weights_of(trainer: Trainer, run_id: str = "a") -> dict[str, nn.Parameter]:
    return dict(trainer.runs[run_id].parameters)


def assert_same_weights(trainers: Trainers) -> None:
    expected, actual = map(weights_of, trainers)
    assert expected.keys() == actual.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name], weight, rtol=1e-4, atol=1e-5)


def assert_same_gradients(trainers: Trainers) -> None:
    expected, actual = map(weights_of, trainers)
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name].grad, weight.grad, rtol=1e-4, atol=1e-5)


def delete_runs(trainers: Trainers) -> None:
    for trainer in trainers:
        for run_id in list(trainer.runs):
            trainer.delete_run(run_id)


# Full first: no adapter may have been inserted before.
@pytest.mark.parametrize("kind", ["full", "lora", "dora"])
def test_two_processes_take_the_steps_of_one(trainers: Trainers, tmp_path: Path, kind: str) -> None:
    """Gradients of several passes add up, one over a single row; each goes on from the other's state."""
    for trainer in trainers:
        if kind == "full":
            trainer.create_full_run("a")
        else:
            trainer.create_run("a", LoraOptions(rank=4, use_dora=kind == "dora"))
    for saving, loading in (trainers, reversed(trainers)):
        for data, loss_fn in ((DATA, "cross_entropy"), (PAIRS, "dpo_sigmoid"), (DATA[:1], "cross_entropy")):
            expected, actual = (trainer.forward_backward("a", data, loss_fn) for trainer in trainers)
            assert actual.loss == pytest.approx(expected.loss, rel=1e-5)
            assert (actual.num_correct, actual.num_scored) == (expected.num_correct, expected.num_scored)
            torch.testing.assert_close(actual.logprobs, expected.logprobs, rtol=1e-4, atol=1e-4)
        assert_same_gradients(trainers)
        norms = [trainer.optim_step("a", STEP) for trainer in trainers]
        assert norms[1] == pytest.approx(norms[0], rel=1e-4)
        assert_same_weights(trainers)
        saving.save("a", tmp_path, with_optimizer=True)
        loading.load("a", tmp_path, with_optimizer=True)
    delete_runs(trainers)


def test_a_run_that_one_process_cannot_create_exists_in_none(trainers: Trainers) -> None:
    parallel, options = trainers.parallel, LoraOptions(rank=4)
    config = parallel.adapters.new_config(options)
    parallel._replicas.call("add_adapter", "a", config, "adamw", 0)  # in the other process alone
    with pytest.raises(Internal, match="run_id is taken"):
        parallel.create_run("a", options)
    assert not parallel.runs and not any("lora" in name for name in peft_names(parallel))
    assert parallel.create_run("a", options) > 0
    delete_runs(trainers)


def peft_names(trainer: Trainer) -> list[str]:
    return [name for name, weight in trainer.base.causal.named_parameters() if weight.requires_grad]


def run_job(folder: Path, trainer: Trainer, spec: JobSpec, num_steps: int = 99) -> list[Line]:
    """Run or resume the job in `folder`, pausing it after so many steps; returns all lines of its log."""
    folder.mkdir(exist_ok=True)
    data, valid = (
        training_data(dataset(spec.method, rows), spec.method, spec.hyperparameters) for rows in (7, 5)
    )
    TrainingJob(folder, spec, trainer, data, valid, ProgressLog(folder), StopAfter(num_steps)).run()
    trainer.delete_run("job")
    return [json.loads(line) for line in (folder / PROGRESS_FILE).read_text().splitlines()]


@pytest.mark.parametrize("method", ["supervised", "dpo"])
def test_a_job_of_two_processes_has_the_losses_of_one_and_goes_on_in_one(
    trainers: Trainers, tmp_path: Path, method: Method
) -> None:
    """A step has two micro-batches of two rows, the second of each epoch 3 rows in all."""
    spec = job_spec(method, n_epochs=3, gradient_accumulation_steps=2)
    expected = run_job(tmp_path / "one", trainers.single, spec)
    assert of_type(run_job(tmp_path / "both", trainers.parallel, spec, num_steps=3), "paused")
    resumed = run_job(tmp_path / "both", trainers.single, spec)
    actual = run_job(tmp_path / "two", trainers.parallel, spec)
    assert len(losses(expected)) == 6
    for lines in (resumed, actual):
        assert losses(lines) == pytest.approx(losses(expected), abs=1e-4)
        assert valid_losses(lines) == pytest.approx(valid_losses(expected), abs=1e-4)


def valid_losses(lines: list[Line]) -> list[float]:
    return [line["valid_loss"] for line in of_type(lines, "evaluation")]


def test_a_pass_that_is_interrupted_leaves_the_gradients_as_they_were(trainers: Trainers) -> None:
    for trainer in trainers:
        trainer.create_run("a", LoraOptions(rank=4))
        trainer.forward_backward("a", DATA, "cross_entropy")
    parallel = trainers.parallel

    def interrupt(*_: object) -> None:
        raise PassInterrupted

    hook = parallel.base.backbone.register_forward_pre_hook(interrupt)
    with pytest.raises(PassInterrupted), whole_pass(parallel.parameters("a")):
        parallel.forward_backward("a", DATA, "cross_entropy")
    hook.remove()
    assert_same_gradients(trainers)
    for trainer in trainers:
        trainer.forward_backward("a", PAIRS, "dpo_sigmoid")
        trainer.optim_step("a", STEP)
    assert_same_weights(trainers)
    delete_runs(trainers)


def test_an_error_of_the_other_process_is_raised_here(trainers: Trainers) -> None:
    """The run is unknown there, as if its creation had failed."""
    parallel = trainers.parallel
    parallel.create_run("a", LoraOptions(rank=4))
    parallel._replicas.call("delete_run", "a")
    with pytest.raises(Internal, match="there is no run 'a'"):
        parallel.forward("a", DATA, "cross_entropy")
    with pytest.raises(BadRequest, match="run_id is taken"):
        parallel.create_run("a", LoraOptions())
    Trainer.delete_run(parallel, "a")


def test_a_run_of_tinker_leaves_memory_with_its_gradients_and_goes_on(
    trainers: Trainers, tmp_path: Path
) -> None:
    """Through the verbs of the trainer's server; micro-batches are as small as each request says."""
    replies, kinds = [], {"attention": True, "mlp": True, "output": False}
    for number, trainer in enumerate(trainers):
        server = TrainerServer(TrainingBase(names=("base",), model_folder="", context=64))
        server.trainer = trainer
        call = partial(call_verb, server, run="a")
        call("create_run", rank=4, seed=1, kinds=kinds)
        first = call("forward_backward", DATA)
        folder = tmp_path / str(number)
        call("save_state", folder=str(folder))
        call("delete_run")
        call("open_run", folder=str(folder))
        second = call("forward_backward", DATA[1:])
        step = call("optim_step", params={"learning_rate": 1e-2})
        replies.append([each["metrics"] for each in (first, second, step)])
    for expected, actual in zip(*replies, strict=True):
        assert actual == pytest.approx(expected, rel=1e-4)
    assert_same_weights(trainers)
    delete_runs(trainers)


PASS = {"loss_fn": "cross_entropy", "config": {}, "forward_only": False, "max_tokens": 12}


def call_verb(
    server: TrainerServer, verb: str, data: Sequence[Datum] = (), **fields: object
) -> Mapping[str, Any]:
    header, _ = server.reply(TrainerMessage({"verb": verb, **PASS, **fields}, data_to_arrays(data)))
    assert "error" not in header, header
    return header


def test_shares_have_whole_groups_of_similar_length_and_nearly_equal_numbers() -> None:
    data = weighted_data([3, 3, 9, 8, 2, 2, 7, 1, 5, 5])
    assert divide_rows(data, 1, 1) == [list(range(10))]
    assert divide_rows(data, 2, 2) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    assert divide_rows(data[:2], 2, 3) == [[0, 1], [], []]
    for num_processes in (2, 3, 4):
        shares = divide_rows(data, 1, num_processes)
        assert sorted(index for share in shares for index in share) == list(range(10))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
