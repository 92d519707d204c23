"""The trainer's process: it computes, is interrupted, dies, and ends with its socket."""

import sys
import threading
from pathlib import Path

import psutil
import pytest

from inference.process.child_program import KILLED, describe_exit
from tests.tuning.runs.conftest import make_options
from tuning.runs.resident_runs import adapter_fields
from tuning.runs.trainer_process import Interrupted, TrainerDied, TrainerProcess
from tuning.service import OWN_PROGRAMS
from tuning.trainer.datum import Datum
from tuning.trainer.messages import data_to_arrays
from tuning.types import TrainingBase

PASS = {"run": "a", "loss_fn": "cross_entropy", "config": {}, "forward_only": False}


@pytest.mark.slow
def test_a_process_computes_is_interrupted_and_ends_with_its_socket(
    tmp_path: Path, training_base: TrainingBase
) -> None:
    trainer = TrainerProcess(OWN_PROGRAMS.serve_runs, tmp_path / "trainer", training_base, nice=1)
    trainer.call("create_run", run="a", **adapter_fields(make_options()))
    data = data_to_arrays([Datum([1] * 32, [2] * 32)])
    first = trainer.call("forward_backward", data, max_tokens=4096, **PASS)
    assert first.header["metrics"]["tokens:sum"] == 32 and trainer.resident_bytes > 10**8
    many = data_to_arrays([Datum([1] * 32, [2] * 32)] * 2000)
    is_over = threading.Event()
    interrupter = threading.Thread(target=interrupt_until, args=(trainer, is_over))
    interrupter.start()
    with pytest.raises(Interrupted):
        trainer.call("forward_backward", many, max_tokens=32, **PASS)
    is_over.set()
    interrupter.join()
    trainer.call("optim_step", run="a", params={"learning_rate": 0.1})
    trainer.close()
    assert not psutil.pid_exists(trainer.pid)


def interrupt_until(trainer: TrainerProcess, is_over: threading.Event) -> None:
    """A request that has just begun may not hear of it."""
    while not is_over.wait(0.1):
        trainer.interrupt()


def test_the_death_of_the_process_is_an_error_with_its_reason(
    tmp_path: Path, training_base: TrainingBase
) -> None:
    sleeps = (sys.executable, "-ISc", "import time; time.sleep(600)")
    trainer = TrainerProcess(sleeps, tmp_path / "trainer", training_base, nice=1)
    trainer.kill()
    with pytest.raises(TrainerDied, match=describe_exit(KILLED)):
        trainer.call("optim_step", run="a", params={"learning_rate": 0.1})
