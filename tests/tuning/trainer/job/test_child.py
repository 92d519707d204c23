"""The trainer's process: from job.json to an adapter, through a kill, a pause and failures in words."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.tuning.trainer.conftest import job_spec
from tests.tuning.trainer.job.children import (
    chat_rows,
    lines_of,
    of_type,
    train_until,
    train_with_memory,
    write_job,
)
from tuning.data.examples import Dataset, Example
from tuning.job_files import SPEC_FILE, read_value
from tuning.trainer.job import child
from tuning.trainer.job.progress import ProgressLog
from tuning.trainer.model.base_model import BaseModel
from tuning.types import JobSpec

ROOT = Path(__file__).parents[4]
WITHOUT_COMPILER = """
import sys
from inference.process import run_module
from inference.process.imports.deferred_modules import is_deferred

code = run_module.main("tuning.trainer.job.child", sys.argv[1:])
assert is_deferred("torch._dynamo") and is_deferred("torch.export")
assert not {"torch.distributed.tensor", "torch._inductor"} & set(sys.modules)
sys.exit(code)
"""


def train_here(folder: Path) -> None:
    """The whole job in this process, which has imported the trainer."""
    spec = read_value(folder / SPEC_FILE, JobSpec)
    child.run_job(folder, spec, ProgressLog(folder), child.StopRequest())


def test_a_spec_survives_its_file(tmp_path: Path, model_folder: Path) -> None:
    spec = write_job(tmp_path, model_folder, chat_rows(1), target_modules=("q_proj",), warmup_steps=None)
    assert read_value(tmp_path / SPEC_FILE, JobSpec) == spec


def test_an_architecture_without_a_plan_trains_all_the_same(base: BaseModel) -> None:
    dataset = Dataset(row_form="chat", examples=[Example((1, 2, 3), (0.0, 1.0, 1.0), 1)])
    assert child.plan_terms(base, job_spec(), dataset)["weights"] > 0
    base.causal.config.hidden_act = "unheard_of"
    assert child.plan_terms(base, job_spec(), dataset) == {}


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.system("posix")
@pytest.mark.slow
def test_a_child_trains_and_after_kills_and_pauses_goes_on(tmp_path: Path, model_folder: Path) -> None:
    uncut, folder = tmp_path / "uncut", tmp_path / "interrupted"
    for each in (uncut, folder):
        each.mkdir()
        write_job(each, model_folder, chat_rows(8), n_epochs=10)
    train_here(uncut)
    expected = {line["step"]: line["train_loss"] for line in of_type(uncut, "step")}
    (started,) = of_type(uncut, "started")
    assert started["total_steps"] == len(expected) == 40
    assert started["num_trained_tokens"] > 0 and started["plan"]["weights"] > 0
    assert train_until(folder, 10, signal.SIGKILL) == -signal.SIGKILL
    assert train_until(folder, 20, signal.SIGTERM) == 0
    assert [line["step"] for line in of_type(folder, "paused")] == [20]
    command = [sys.executable, "-c", WITHOUT_COMPILER, str(folder)]
    subprocess.run(
        command, cwd=ROOT, capture_output=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    losses = {line["step"]: line["train_loss"] for line in of_type(folder, "step")}
    assert losses.keys() == expected.keys()
    assert max(abs(losses[step] - expected[step]) for step in expected) < 1e-4
    (finished,) = of_type(folder, "finished")
    assert Path(finished["folder"], "adapter_model.safetensors").exists()


@pytest.mark.timeout(900)  # on a machine that other programs load, too
@pytest.mark.system("posix")
@pytest.mark.slow
def test_a_full_job_that_is_killed_at_half_goes_on_from_its_saved_state(
    tmp_path: Path, model_folder: Path
) -> None:
    uncut, folder = tmp_path / "uncut", tmp_path / "killed"
    for each in (uncut, folder):
        each.mkdir()
        write_job(each, model_folder, chat_rows(8), n_epochs=10, finetuning_type="full")
    train_here(uncut)
    assert train_until(folder, 20, signal.SIGKILL) == -signal.SIGKILL
    before = lines_of(folder)
    train_here(folder)
    resumed_at = next(line["step"] for line in lines_of(folder)[len(before) :] if line["type"] == "step")
    assert 1 < resumed_at <= before[-1]["step"] + 1, "it went on from a state that the first process saved"
    expected, losses = (
        {line["step"]: line["train_loss"] for line in of_type(each, "step")} for each in (uncut, folder)
    )
    assert losses.keys() == expected.keys() == set(range(1, 41))
    assert max(abs(losses[step] - expected[step]) for step in expected) < 1e-4
    weights = [
        load_file(Path(finished["folder"], "model.safetensors"))
        for each in (uncut, folder)
        for finished in of_type(each, "finished")
    ]
    assert all(torch.allclose(weight, weights[1][name], atol=1e-5) for name, weight in weights[0].items())


@pytest.mark.system("linux")
@pytest.mark.slow
def test_refused_memory_ends_in_words(tmp_path: Path) -> None:
    """64 rows of 60 tokens at once on models/demo take several hundred MB; the child may have 150 MB."""
    rows = [{"text": f"{number} " + "one two three four five six " * 10} for number in range(64)]
    write_job(tmp_path, ROOT / "models" / "demo", rows, batch_size=64)
    assert train_with_memory(tmp_path, 150_000_000) == 1
    (failed,) = of_type(tmp_path, "failed")
    assert failed["code"] == "out_of_memory" and "a smaller batch_size" in failed["message"]
    assert not of_type(tmp_path, "step")


def test_a_failure_ends_in_words(tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process keeps its own handler
    write_job(tmp_path, model_folder, [*chat_rows(2), {"messages": "none"}])
    assert child.main([str(tmp_path)]) == 1
    (failed,) = of_type(tmp_path, "failed")
    assert failed["code"] == "invalid_training_file" and failed["param"] == "training_file"
    assert failed["message"].startswith("Line 3: ")
