"""A training job: a loop over the trainer's verbs, with a schedule, evaluations, checkpoints and a state.

Knows encoded data and the job's folder; nothing of processes, signals and the format of a dataset.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuning.trainer.job.checkpoints import checkpoint_folder, remove_checkpoints, write_checkpoint
from tuning.trainer.job.evaluation import batch_measures, evaluate, score
from tuning.trainer.job.failures import NOT_FINITE, JobFailed
from tuning.trainer.job.job_state import (
    JobState,
    read_counters,
    read_reference,
    save_reference,
    save_state,
    saved_state_folder,
)
from tuning.trainer.job.pass_cost import make_pass_cost
from tuning.trainer.job.progress import ProgressLog
from tuning.trainer.job.rehearsal import Rehearsal, prepare_rehearsal
from tuning.trainer.job.remaining_time import make_remaining_time
from tuning.trainer.job.save_schedule import SaveSchedule
from tuning.trainer.job.schedule import Schedule, make_schedule
from tuning.trainer.job.training_data import TrainingBatch, TrainingData, add_reference, prompt_of
from tuning.trainer.job.workload import JobWorkload, make_workload
from tuning.trainer.memory.trainer_memory import peak_bytes
from tuning.trainer.model.lora import lora_options
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.pass_result import PassResult
from tuning.trainer.trainer import Trainer
from tuning.types import NUM_CHECKPOINTS, JobSpec

RUN_ID = "job"
MAX_NOT_FINITE = 3  # steps in a row
SCORES = "The model scores the rows as it is now: the losses compare with that"
TIMED_SAVE_STEP = 2  # the state is saved after this step too: the time left includes the time of a save


class TrainingJob:
    """Trains one adapter, or all weights.

    folder           of the job: its progress, its checkpoints and its state
    validation_data  None: the job has no validation file
    is_stopped       whether the job shall pause after the running step
    """

    def __init__(
        self,
        folder: Path,
        spec: JobSpec,
        trainer: Trainer,
        training_data: TrainingData,
        validation_data: TrainingData | None,
        progress: ProgressLog,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.folder, self.spec, self.trainer, self.progress = folder, spec, trainer, progress
        self.training_data, self.validation_data = training_data, validation_data
        self.is_stopped = is_stopped
        self.schedule: Schedule = make_schedule(len(training_data), spec.hyperparameters, spec.seed)
        self.pass_cost = make_pass_cost(trainer.base.causal, spec.hyperparameters, training_data.group_size)
        self.remaining_time = make_remaining_time(spec, self.pass_cost, validation_data)
        self.rehearsal: Rehearsal | None = None
        self.state = JobState()
        self._saves = SaveSchedule(spec.hyperparameters.finetuning_type)
        self._train_measures = {"train_loss": 0.0}  # of the last step

    def run(self, **started: Any) -> None:
        """Train to the end, or to a pause. `started`: more fields for the progress line of that name.

        Raises JobFailed, and whatever computing the model raises.
        """
        num_trained = self._open_run()
        self.progress.write(
            "started",
            total_steps=self.schedule.num_steps,
            num_examples=len(self.training_data),
            trainable_parameters=num_trained,
            **started,
        )
        self._prepare_reference()
        self._prepare_rehearsal()
        self._workload: JobWorkload = self._make_workload()
        while self.state.step < self.schedule.num_steps and not self._has_stopped_improving():
            if self.is_stopped():
                self._save_state()
                self.progress.write("paused", step=self.state.step)
                return
            self._take_step()
            self._finish_step()
        self._finish()

    def _open_run(self) -> int:
        """Create the run, or open it as it was in the saved state."""
        num_trained = create_run(self.trainer, RUN_ID, self.spec)
        state_folder = saved_state_folder(self.folder)
        if state_folder is not None:
            self.trainer.load(RUN_ID, state_folder, with_optimizer=True)
            self.state = read_counters(state_folder)
            self.progress.message(f"The training goes on after step {self.state.step}")
        return num_trained

    def _prepare_reference(self) -> None:
        """Score all data once with the model that the job starts from, before its first step."""
        if not self.training_data.needs_reference:
            return
        all_data = [data for data in (self.training_data, self.validation_data) if data is not None]
        logprobs = read_reference(self.folder)
        if logprobs is None:
            self.progress.message(SCORES)
            logprobs = [values for data in all_data for values in score(self.trainer, RUN_ID, data.data)]
            save_reference(self.folder, logprobs)
        for data in all_data:
            add_reference(data, logprobs[: len(data.data)])
            logprobs = logprobs[len(data.data) :]

    def _prepare_rehearsal(self) -> None:
        """Let the model that the job starts from write what it shall not forget, before its first step."""
        prompts = [prompt_of(datum) for datum in self.training_data.data]
        num_steps, report = self.schedule.num_steps, self.progress.message
        self.rehearsal = prepare_rehearsal(
            self.folder, self.trainer.base, prompts, self.spec, num_steps, report
        )

    def _make_workload(self) -> JobWorkload:
        return make_workload(
            self.spec,
            self.schedule,
            self.training_data,
            self.pass_cost,
            has_evaluations=self.validation_data is not None,
            further_cost=self.rehearsal.mean_cost(self.pass_cost) if self.rehearsal else 0.0,
        )

    def _take_step(self) -> None:
        began, step = time.monotonic(), self.state.step
        rows = self.schedule.rows_of(step)
        batch = self.training_data.batch(rows, lambda data: score(self.trainer, RUN_ID, data))
        result = self.trainer.forward_backward(RUN_ID, batch.data, batch.loss_fn, batch.config)
        rehearsed = self.rehearsal.of_step(step) if self.rehearsal else []
        if rehearsed:  # its gradients add up with those of the rows
            self.trainer.forward_backward(RUN_ID, rehearsed, "cross_entropy")
        grad_norm = self._update(result, self.schedule.rate_of(step))
        self.state.step += 1
        elapsed_s = time.monotonic() - began
        cost = self.pass_cost.of(batch.data, self.training_data.group_size) + self.pass_cost.of(rehearsed, 1)
        self.remaining_time.add_step(cost, elapsed_s)
        if grad_norm is not None:
            measures = {"loss": result.loss} | batch_measures(batch, result)
            self._train_measures = {f"train_{name}": value for name, value in measures.items()}
            self._report_step(batch, grad_norm, elapsed_s)

    def _update(self, result: PassResult, learning_rate: float) -> float | None:
        """Take the optimizer's step; returns the norm of the gradients, None if the step was skipped."""
        hyperparameters = self.spec.hyperparameters
        params = AdamParams(
            learning_rate=learning_rate,
            weight_decay=hyperparameters.weight_decay,
            grad_clip_norm=hyperparameters.grad_clip,
        )
        if math.isfinite(result.loss):
            grad_norm = self.trainer.optim_step(RUN_ID, params)
            if math.isfinite(grad_norm):
                self.state.num_not_finite = 0
                return grad_norm
        self.trainer.drop_gradients(RUN_ID)
        self.state.num_not_finite += 1
        text = f"Step {self.state.step + 1} was skipped: its loss or gradients are not finite"
        self.progress.message(text, level="warn")
        if self.state.num_not_finite >= MAX_NOT_FINITE:
            raise JobFailed("non_finite_loss", NOT_FINITE.format(count=MAX_NOT_FINITE))
        return None

    def _report_step(self, batch: TrainingBatch, grad_norm: float, elapsed_s: float) -> None:
        step, num_steps = self.state.step, self.schedule.num_steps
        self.progress.write(
            "step",
            step=step,
            total_steps=num_steps,
            epoch=self.schedule.epoch_of(step - 1) + 1,
            learning_rate=self.schedule.rate_of(step - 1),
            grad_norm=grad_norm,
            tokens_per_second=sum(map(len, batch.data)) / max(elapsed_s, 1e-9),
            eta_s=self.remaining_time.estimate(self._workload.after(step)),
            **self._train_measures,
        )

    def _finish_step(self) -> None:
        """After a step: what is due at the end of an epoch or of an interval."""
        ends_epoch = self.schedule.ends_epoch(self.state.step - 1)
        eval_steps = self.spec.hyperparameters.eval_steps
        is_evaluated = self.state.step % eval_steps == 0 if eval_steps else ends_epoch
        measures = self._evaluate() if self.validation_data is not None and is_evaluated else {}
        is_save_due = self._is_save_due(ends_epoch)
        with self._saves.saving(is_save_due):
            if (ends_epoch and is_save_due) or self.state.best_step == self.state.step:
                self._write_checkpoint(measures)
            if is_save_due:
                self._save_state()
        if ends_epoch and is_save_due:
            self.remaining_time.save_s = self._saves.save_s

    def _is_save_due(self, ends_epoch: bool) -> bool:
        return self._saves.is_due(ends_epoch) or self.remaining_time.num_steps == TIMED_SAVE_STEP

    def _evaluate(self) -> dict[str, float]:
        assert self.validation_data is not None
        began = time.monotonic()
        measures = evaluate(self.trainer, RUN_ID, self.validation_data)
        self.remaining_time.evaluation_s = time.monotonic() - began
        if not math.isfinite(measures["valid_loss"]):
            self.progress.message("The loss on the validation file is not finite", level="warn")
            measures = {}
        else:
            self.progress.write("evaluation", step=self.state.step, **measures)
        if measures.get("valid_loss", math.inf) < self.state.best_loss:
            self.state.best_loss, self.state.best_step = measures["valid_loss"], self.state.step
            self.state.num_worse = 0
        else:
            self.state.num_worse += 1
        return measures

    def _has_stopped_improving(self) -> bool:
        max_worse = self.spec.hyperparameters.early_stopping_patience
        return 0 < max_worse <= self.state.num_worse

    def _write_checkpoint(self, measures: dict[str, float]) -> None:
        """Announce the checkpoint, then remove those that it replaces: the server lists what it can serve."""
        state, step = self.state, self.state.step
        path = write_checkpoint(self.folder, step, self.trainer, RUN_ID)
        self.progress.write(
            "checkpoint",
            step=step,
            epoch=self.schedule.epoch_of(step - 1) + 1,
            folder=str(path),
            **self._train_measures,
            **measures,
        )
        state.checkpoints = remove_checkpoints(
            self.folder,
            {*state.checkpoints, step},
            state.best_step,
            NUM_CHECKPOINTS[self.spec.hyperparameters.finetuning_type],
        )

    def _save_state(self) -> None:
        began = time.monotonic()
        save_state(self.folder, self.state, self.trainer, RUN_ID)
        self.remaining_time.add_state(time.monotonic() - began)

    def _finish(self) -> None:
        if self.state.step not in self.state.checkpoints:
            self._write_checkpoint({})
            self._save_state()
        keeps_best = self.spec.hyperparameters.keep_best and self.state.best_step
        step = self.state.best_step if keeps_best else self.state.step
        self.progress.write(
            "finished",
            folder=str(checkpoint_folder(self.folder, step)),
            best_step=step,
            peak_bytes=peak_bytes(self.spec.device),
        )


def create_run(trainer: Trainer, run_id: str, spec: JobSpec) -> int:
    """Create the run of a job's first step; returns the number of trained parameters."""
    hyperparameters = spec.hyperparameters
    if hyperparameters.is_full:
        return trainer.create_full_run(run_id, hyperparameters.optimizer)
    if spec.initial_adapter:
        return trainer.create_run_from(run_id, Path(spec.initial_adapter), hyperparameters.optimizer)
    return trainer.create_run(run_id, lora_options(spec), hyperparameters.optimizer)
