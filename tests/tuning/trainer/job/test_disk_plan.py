"""The disk of a full fine-tuning: its states and models."""

from dataclasses import replace
from pathlib import Path

from tests.tiny_models import tiny
from tests.tuning.trainer.conftest import job_spec
from tuning.trainer.job.disk_plan import check_disk, plan_disk

CONFIG = {"model_type": "llama", **tiny.LLAMA}
NUM_WEIGHTS = 39_072


def test_an_adapter_takes_none() -> None:
    assert plan_disk(CONFIG, job_spec()) == 0


def test_two_states_and_the_models_that_stay() -> None:
    spec = job_spec(finetuning_type="full")
    assert plan_disk(CONFIG, spec) == NUM_WEIGHTS * (2 * 12 + 2 * 4)
    evaluated = replace(spec, validation_file="rows", dtype="bfloat16")
    assert plan_disk(CONFIG, evaluated) == NUM_WEIGHTS * (2 * 12 + 3 * 2)
    assert plan_disk(CONFIG, job_spec(finetuning_type="full", optimizer="sgd")) == NUM_WEIGHTS * (2 * 4 + 8)


def test_a_finding_of_too_small_a_disk_has_the_fix(tmp_path: Path) -> None:
    assert check_disk(0, tmp_path).ok
    finding = check_disk(1 << 60, tmp_path)
    assert not finding.ok and "TUNING_DIR" in finding.fix and "finetuning_type=lora" in finding.fix
