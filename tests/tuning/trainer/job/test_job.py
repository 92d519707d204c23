"""A job: its progress, checkpoints and best result, and that it goes on as if it had never stopped."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tuning.trainer.conftest import job_spec
from tests.tuning.trainer.job.running import StopAfter, dataset, losses, of_type, run_job
from tuning.job_files import PROGRESS_FILE
from tuning.trainer.job.failures import JobFailed
from tuning.trainer.job.job_state import saved_state_folder
from tuning.trainer.job.progress import ProgressLog
from tuning.trainer.trainer import Trainer
from tuning.types import Method

METHODS: tuple[Method, ...] = ("supervised", "dpo", "orpo", "kto")


def test_a_job_learns_and_reports_its_progress(tmp_path: Path, model_folder: Path) -> None:
    lines = run_job(
        tmp_path / "job",
        model_folder,
        job_spec(n_epochs=8, learning_rate=1e-2, train_output=True),
        dataset("supervised"),
    )
    (started,), (finished,) = of_type(lines, "started"), of_type(lines, "finished")
    assert (started["total_steps"], started["num_examples"]) == (24, 6)
    assert started["trainable_parameters"] > 0
    steps = of_type(lines, "step")
    assert [line["step"] for line in steps] == list(range(1, 25))
    assert steps[-1]["eta_s"] == 0 and steps[0]["epoch"] == 1 and steps[-1]["epoch"] == 8
    assert {"learning_rate", "grad_norm", "tokens_per_second", "train_mean_token_accuracy"} <= steps[0].keys()
    evaluations = of_type(lines, "evaluation")
    assert [line["step"] for line in evaluations] == list(range(3, 25, 3))
    assert evaluations[-1]["valid_loss"] < 0.7 * evaluations[0]["valid_loss"]
    assert finished["best_step"] == 24 and finished["peak_bytes"] > 1 << 20
    assert Path(finished["folder"], "adapter_config.json").exists()


def test_only_the_last_three_checkpoints_remain(tmp_path: Path, model_folder: Path) -> None:
    lines = run_job(tmp_path / "job", model_folder, job_spec(n_epochs=5))
    assert [line["step"] for line in of_type(lines, "checkpoint")] == [3, 6, 9, 12, 15]
    names = sorted(path.name for path in (tmp_path / "job" / "checkpoints").iterdir())
    assert names == ["step-12", "step-15", "step-9"]
    steps = {line["step"]: line for line in of_type(lines, "step")}
    for line in of_type(lines, "checkpoint"):
        figures = ("train_loss", "train_mean_token_accuracy")
        assert [line[name] for name in figures] == [steps[line["step"]][name] for name in figures]


def test_a_checkpoint_is_announced_before_those_that_it_replaces_are_removed(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server lists what was announced: a trainer that is killed in between leaves no name without files."""
    write, present = ProgressLog.write, []

    def note_folders(log: ProgressLog, type: str, **fields: Any) -> None:
        if type == "checkpoint":
            present.append({path.name for path in Path(fields["folder"]).parent.iterdir()})
        write(log, type, **fields)

    monkeypatch.setattr(ProgressLog, "write", note_folders)
    run_job(tmp_path / "job", model_folder, job_spec(n_epochs=4))
    assert present[-1] == {"step-3", "step-6", "step-9", "step-12"}


def test_a_full_job_keeps_the_last_checkpoint_and_the_best(tmp_path: Path, model_folder: Path) -> None:
    """Its rate is so high that the first epoch is the best one."""
    spec = job_spec(n_epochs=4, learning_rate=0.5, finetuning_type="full")
    lines = run_job(tmp_path / "job", model_folder, spec, dataset("supervised", seed=1))
    (finished,) = of_type(lines, "finished")
    names = {path.name for path in (tmp_path / "job" / "checkpoints").iterdir()}
    assert names == {"step-12", f"step-{finished['best_step']}"} and finished["best_step"] < 12
    assert Path(finished["folder"], "model.safetensors").exists()


@pytest.mark.parametrize(
    ("method", "finetuning_type"),
    [*((method, "lora") for method in METHODS), ("supervised", "full"), ("dpo", "full"), ("kto", "full")],
)
def test_a_paused_job_goes_on_with_the_same_losses(
    tmp_path: Path, model_folder: Path, method: Method, finetuning_type: str
) -> None:
    spec = job_spec(method, n_epochs=4, finetuning_type=finetuning_type)
    expected = losses(run_job(tmp_path / "whole", model_folder, spec))
    assert len(expected) == 12
    folder = tmp_path / "halves"
    first = run_job(folder, model_folder, spec, is_stopped=StopAfter(5))
    assert of_type(first, "paused")[0]["step"] == 5 and not of_type(first, "finished")
    second = run_job(folder, model_folder, spec)
    assert "after step 5" in of_type(second, "message")[0]["text"]
    both_halves = losses(first) | losses(second)
    assert both_halves.keys() == expected.keys()
    assert max(abs(both_halves[step] - expected[step]) for step in expected) < 1e-4


def test_a_killed_job_goes_on_from_its_last_state(tmp_path: Path, model_folder: Path) -> None:
    spec = job_spec(n_epochs=4)
    expected = losses(run_job(tmp_path / "whole", model_folder, spec))

    def kill() -> bool:
        raise KeyboardInterrupt

    stop, folder = StopAfter(8), tmp_path / "job"
    with pytest.raises(KeyboardInterrupt):  # 8 steps; the state is that of the end of epoch 2, step 6
        run_job(folder, model_folder, spec, is_stopped=lambda: stop() and kill())
    second = losses(run_job(folder, model_folder, spec))
    assert list(second) == list(range(7, 13))
    assert max(abs(second[step] - expected[step]) for step in second) < 1e-4


def test_the_state_is_saved_and_timed_before_the_third_step(tmp_path: Path, model_folder: Path) -> None:
    """Long before the first epoch ends: the time left counts it, and a killed job goes on from there."""

    def kill() -> bool:
        raise KeyboardInterrupt

    spec, stop = job_spec(batch_size=1, n_epochs=2), StopAfter(3)
    with pytest.raises(KeyboardInterrupt):
        run_job(tmp_path / "job", model_folder, spec, is_stopped=lambda: stop() and kill())
    assert min(losses(run_job(tmp_path / "job", model_folder, spec))) == 3


def test_a_finished_job_that_is_started_again_ends_at_once(tmp_path: Path, model_folder: Path) -> None:
    first = run_job(tmp_path / "job", model_folder, job_spec())
    second = run_job(tmp_path / "job", model_folder, job_spec())
    assert not of_type(second, "step")
    assert of_type(second, "finished")[0]["folder"] == of_type(first, "finished")[0]["folder"]


def test_the_best_checkpoint_is_the_result_and_worse_ones_end_the_job(
    tmp_path: Path, model_folder: Path
) -> None:
    """Rows that the training never sees become less probable, the better it knows its own."""
    spec = job_spec(n_epochs=30, learning_rate=2e-2, early_stopping_patience=2)
    lines = run_job(tmp_path / "job", model_folder, spec, dataset("supervised", seed=7))
    evaluated = {line["step"]: line["valid_loss"] for line in of_type(lines, "evaluation")}
    best = min(evaluated, key=evaluated.__getitem__)
    assert list(evaluated)[-1] == best + 2 * 3 < 90
    (finished,) = of_type(lines, "finished")
    assert finished["best_step"] == best and finished["folder"].endswith(f"step-{best}")
    assert Path(finished["folder"], "adapter_model.safetensors").exists()


def test_the_last_checkpoint_is_the_result_if_the_best_is_not_kept(
    tmp_path: Path, model_folder: Path
) -> None:
    spec = job_spec(n_epochs=4, learning_rate=2e-2, keep_best=False)
    lines = run_job(tmp_path / "job", model_folder, spec, dataset("supervised", seed=7))
    assert of_type(lines, "finished")[0]["best_step"] == 12


def test_losses_that_are_not_finite_are_skipped_thrice_then_fail(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_runs: list[str] = []
    plain = Trainer.optim_step

    def explode(self: Trainer, run_id: str, params: Any) -> float:
        step_runs.append(run_id)
        if len(step_runs) > 4:
            for weight in self.runs[run_id].parameters.values():
                weight.grad = torch.full_like(weight, torch.nan)
        return plain(self, run_id, params)

    monkeypatch.setattr(Trainer, "optim_step", explode)
    folder = tmp_path / "job"
    with pytest.raises(
        JobFailed, match="not finite in 3 steps running: use a lower learning rate"
    ) as failure:
        run_job(folder, model_folder, job_spec(n_epochs=9))
    assert failure.value.code == "non_finite_loss"
    lines = [json.loads(line) for line in (folder / PROGRESS_FILE).read_text().splitlines()]
    assert len(of_type(lines, "step")) == 4
    assert [line["level"] for line in of_type(lines, "message")] == ["warn"] * 3
    assert (folder / "checkpoints" / "step-3" / "adapter_model.safetensors").exists()
    assert saved_state_folder(folder) is not None


def test_dpo_moves_the_margins_towards_the_chosen_answers(tmp_path: Path, model_folder: Path) -> None:
    lines = run_job(tmp_path / "job", model_folder, job_spec("dpo", n_epochs=10), dataset("dpo"))
    steps = of_type(lines, "step")
    assert steps[0]["train_loss"] == pytest.approx(0.6931, abs=1e-3)
    assert steps[0]["train_reward_margin"] == pytest.approx(0, abs=1e-3)
    last = of_type(lines, "evaluation")[-1]
    assert last["valid_reward_margin"] > 0.3 and last["valid_reward_accuracy"] == 1.0


def test_kto_raises_desirable_answers_above_undesirable_ones(tmp_path: Path, model_folder: Path) -> None:
    spec = job_spec("kto", n_epochs=10, learning_rate=1e-2, train_output=True)
    lines = run_job(tmp_path / "job", model_folder, spec, dataset("kto"))
    assert of_type(lines, "step")[0]["train_loss"] == pytest.approx(0.5, abs=1e-3)
    assert of_type(lines, "evaluation")[-1]["valid_loss"] < 0.4
