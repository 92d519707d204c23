"""A program in place of tuning.trainer.job.child: writes progress lines and folders, and computes nothing.

The first row of the training file may have "trainer", an object:
  step_s      seconds of a step
  hold_at     the step after which it waits: until it is told to end, or is released; only before a resumption
  die_at      the step in which it is killed; only before it has been resumed
  exit_at     the step in which it prints last_words ("RuntimeError: last words") and exits with code 3
  fail_at     the step in which it fails with non_finite_loss
  ignore_term it does not obey SIGTERM
Every fifth step has a checkpoint and a saved state.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from inference.process.parent_process import obey_parent
from tests.tuning.held_programs import hold
from tuning.job_files import PROGRESS_FILE, SPEC_FILE, read_value
from tuning.types import JobSpec

SAVE_EVERY = 5


class ScriptedTrainer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = read_value(folder / SPEC_FILE, JobSpec)
        rows = Path(self.spec.training_file).read_bytes().splitlines()
        self.options: dict[str, Any] = json.loads(rows[0]).get("trainer") or {}
        self.total_steps = self.spec.hyperparameters.max_steps or 10
        self.num_rows = len(rows)
        self.is_ending = False
        self.progress = (folder / PROGRESS_FILE).open("a")
        if not self.options.get("ignore_term"):
            signal.signal(signal.SIGTERM, self.end_soon)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def end_soon(self, *_: object) -> None:
        self.is_ending = True

    def write(self, type: str, **fields: Any) -> None:
        print(json.dumps({"type": type, "time": time.time(), **fields}), file=self.progress, flush=True)

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    def run(self) -> None:
        first = json.loads(self.state.read_text()) if self.state.exists() else 0
        counts = {"num_examples": self.num_rows, "num_trained_tokens": 10 * self.num_rows}
        self.write("started", total_steps=self.total_steps, plan={}, trainable_parameters=1, **counts)
        for step in range(first + 1, self.total_steps + 1):
            time.sleep(self.options.get("step_s", 0.0))
            self.misbehave(step, is_resumed=first > 0)
            self.step(step)
            if step == self.options.get("hold_at") and first == 0:
                hold(self.folder, lambda: self.is_ending)
            if self.is_ending:
                self.save(step)
                self.write("paused", step=step)
                return
        folder = self.save_adapter("result")
        self.write("finished", folder=folder, best_step=self.total_steps, peak_bytes=1)

    def misbehave(self, step: int, is_resumed: bool) -> None:
        if step == self.options.get("die_at") and not is_resumed:
            self.progress.write('{"type": "st')  # half a line
            self.progress.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if step == self.options.get("exit_at"):
            print(f"first words\n{self.options.get('last_words', 'RuntimeError: last words')}", flush=True)
            os._exit(3)
        if step == self.options.get("fail_at"):
            self.write("failed", code="non_finite_loss", message="the loss is not finite", param=None)
            os._exit(1)

    def step(self, step: int) -> None:
        eta_s = (self.total_steps - step) * 0.1
        figures = {"train_loss": 1 / step, "train_mean_token_accuracy": 0.5, "learning_rate": 1e-3}
        self.write(
            "step",
            step=step,
            total_steps=self.total_steps,
            epoch=1,
            grad_norm=1.0,
            tokens_per_second=100.0,
            eta_s=eta_s,
            **figures,
        )
        if step % SAVE_EVERY == 0:
            self.write("evaluation", step=step, valid_loss=2 / step, valid_mean_token_accuracy=0.4)
            folder = self.save_adapter(f"checkpoints/step-{step}")
            self.write("checkpoint", step=step, epoch=1, folder=folder, valid_loss=2 / step, **figures)
            self.save(step)

    def save(self, step: int) -> None:
        self.state.with_suffix(".partial").write_text(json.dumps(step))
        self.state.with_suffix(".partial").rename(self.state)

    def save_adapter(self, name: str) -> str:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        config = "config.json" if self.spec.hyperparameters.is_full else "adapter_config.json"
        (folder / config).write_text(json.dumps({"step": name}))
        return str(folder)


if __name__ == "__main__":
    obey_parent()
    ScriptedTrainer(Path(sys.argv[1])).run()
