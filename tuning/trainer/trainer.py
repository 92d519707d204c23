"""The trainer: one frozen base model, and runs over it that each train an adapter; or one run of all weights.

Its verbs are forward_backward, optim_step, save and load. Losses are sums, and gradients add up until the
next optim_step: what a batch means is for the caller to say. Knows no jobs, files of rows or schedules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors.torch import load_file
from torch import nn

from inference.errors import BadRequest, NotFound
from tuning.trainer.check_datum import check_datum
from tuning.trainer.compute_batch import compute_batch
from tuning.trainer.datum import Datum
from tuning.trainer.durable_files import write_tensors
from tuning.trainer.losses.table import Loss, complete_config, find_loss
from tuning.trainer.micro_batches import Layout, divide, lay_out
from tuning.trainer.model.base_model import BaseModel, check_packing
from tuning.trainer.model.full_weights import FullWeights
from tuning.trainer.model.lora import LoraOptions, PeftAdapters, read_config
from tuning.trainer.model.trained_weights import TrainedAdapter, TrainedWeights
from tuning.trainer.optimizers import (
    AdamParams,
    check_optimizer,
    create_optimizer,
    optimizer_tensors,
    restore_optimizer,
    take_step,
    undecayed_names,
)
from tuning.trainer.pass_result import PassResult, collect
from tuning.trainer.run_files import OPTIMIZER_FILE

DEFAULT_LAYOUT = Layout()


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Weights in training. parameters: by their names in the model."""

    weights: TrainedWeights
    optimizer_name: str
    parameters: Mapping[str, nn.Parameter]
    optimizer: torch.optim.Optimizer


class Trainer:
    """Trains adapters over one base model; call it from one thread. Raises BadRequest if it cannot pack.

    layout         of the micro-batches
    checkpointing  layers compute their activations again in the backward pass instead of keeping them
    scores_masked  targets that a loss leaves out get log probabilities, too
    """

    def __init__(
        self,
        base: BaseModel,
        *,
        layout: Layout = DEFAULT_LAYOUT,
        checkpointing: bool = False,
        scores_masked: bool = False,
    ) -> None:
        if layout.packing:
            check_packing(base)
        self.base, self.layout, self.checkpointing = base, layout, checkpointing
        self.scores_masked = scores_masked
        self.adapters = PeftAdapters(base.causal, base.called_paths)
        self.runs: dict[str, TrainingRun] = {}
        self._num_created = 0

    def create_run(self, run_id: str, options: LoraOptions, optimizer: str = "adamw") -> int:
        """Begin a run with a new adapter; returns the number of trained parameters. Raises BadRequest."""
        return self.add_adapter(run_id, self.adapters.new_config(options), optimizer, options.seed)

    def create_full_run(self, run_id: str, optimizer: str = "adamw") -> int:
        """Begin the run that trains all weights; returns their number. Raises BadRequest."""
        if self.runs:
            raise BadRequest("run_id", "must be the only run, as it trains all weights", run_id)
        check_optimizer(optimizer)
        return self._add_run(run_id, FullWeights(self.base), optimizer)

    def create_run_from(self, run_id: str, folder: Path, optimizer: str = "adamw") -> int:
        """Begin a run with the adapter in `folder`; returns the number of trained parameters."""
        num_trained = self.add_adapter(run_id, read_config(folder), optimizer, seed=0)
        try:
            self.load(run_id, folder, with_optimizer=False)
        except BaseException:
            self.delete_run(run_id)
            raise
        return num_trained

    def add_adapter(self, run_id: str, config: LoraConfig, optimizer: str, seed: int) -> int:
        """Begin a run with an adapter of this shape; returns the number of trained parameters.

        A failure leaves the model and the other runs as they were.
        """
        if run_id in self.runs:
            raise BadRequest("run_id", "is taken", run_id)
        check_optimizer(optimizer)
        name = f"run{self._num_created}"  # peft allows no dots in the name of an adapter
        self.adapters.add(name, config, seed)
        self._num_created += 1
        return self._add_run(run_id, TrainedAdapter(self.adapters, name), optimizer)

    def forward_backward(
        self, run_id: str, data: Sequence[Datum], loss_fn: str, config: Mapping[str, float] | None = None
    ) -> PassResult:
        """Compute the loss and add its gradients to the run's. Raises BadRequest before the first pass."""
        return self._pass(run_id, data, loss_fn, config or {})

    @torch.no_grad()
    def forward(
        self, run_id: str, data: Sequence[Datum], loss_fn: str, config: Mapping[str, float] | None = None
    ) -> PassResult:
        """Compute the loss, without gradients."""
        return self._pass(run_id, data, loss_fn, config or {})

    def optim_step(self, run_id: str, params: AdamParams) -> float:
        """Update the run's weights; returns the norm of their gradients before clipping, and forgets them.

        If the norm is not finite, the weights stay as they are.
        """
        run = self._find(run_id)
        norm = take_step(run.optimizer, params)
        run.weights.apply_step()
        return norm

    def parameters(self, run_id: str) -> list[nn.Parameter]:
        """The run's trained weights. Raises NotFound."""
        return list(self._find(run_id).parameters.values())

    def drop_gradients(self, run_id: str) -> None:
        self._find(run_id).optimizer.zero_grad()

    def save(self, run_id: str, folder: Path, *, with_optimizer: bool) -> None:
        """Write the result into an existing folder: an adapter as peft reads it, or a model.

        with_optimizer: write what `load` goes on from, the optimizer's state beside the weights.
        """
        run = self._find(run_id)
        if not with_optimizer:
            run.weights.save(folder)
        else:
            run.weights.save_state(folder)
            write_tensors(folder / OPTIMIZER_FILE, optimizer_tensors(run.optimizer, run.parameters))

    def load(self, run_id: str, folder: Path, *, with_optimizer: bool) -> None:
        """Give the run the weights in `folder`, and the optimizer's state. Raises BadRequest."""
        run = self._find(run_id)
        run.weights.load(folder)
        run.optimizer.zero_grad()
        run.optimizer.state.clear()
        if with_optimizer:
            restore_optimizer(run.optimizer, run.parameters, load_file(folder / OPTIMIZER_FILE))

    def delete_run(self, run_id: str) -> None:
        self._find(run_id).weights.remove()
        del self.runs[run_id]

    def _add_run(self, run_id: str, weights: TrainedWeights, optimizer: str) -> int:
        try:
            weights.activate()
            parameters = weights.parameters()
            undecayed = undecayed_names(self.base.causal, parameters)
            run = TrainingRun(
                weights, optimizer, parameters, create_optimizer(optimizer, parameters, undecayed)
            )
            self._set_checkpointing()
        except BaseException:
            weights.remove()
            raise
        self.runs[run_id] = run
        return sum(weight.numel() for weight in parameters.values())

    def _set_checkpointing(self) -> None:
        if self.checkpointing:  # only layers in training mode compute anything again
            enable_checkpointing(self.base.causal)
            self.base.causal.train()

    def _find(self, run_id: str) -> TrainingRun:
        if run_id not in self.runs:
            raise NotFound(f"there is no run {run_id!r}")
        return self.runs[run_id]

    def _pass(
        self, run_id: str, data: Sequence[Datum], loss_fn: str, config: Mapping[str, float]
    ) -> PassResult:
        loss = find_loss(loss_fn)
        complete = complete_config(loss, config)
        self._check(data, loss)
        self._find(run_id)
        return self.compute(run_id, data, loss_fn, complete)

    def compute(
        self, run_id: str, data: Sequence[Datum], loss_fn: str, config: Mapping[str, float]
    ) -> PassResult:
        """The pass of forward_backward, or without gradients of forward, over data that are checked."""
        loss = find_loss(loss_fn)
        self._find(run_id).weights.activate()
        passes = [
            compute_batch(
                self.base,
                lay_out(data, indices, loss, self.layout.packing, self.base.device),
                loss,
                config,
                scores_masked=self.scores_masked,
            )
            for indices in divide(data, loss.group_size, self.layout)
        ]
        return collect(passes, data, loss)

    def _check(self, data: Sequence[Datum], loss: Loss) -> None:
        if not data or len(data) % loss.group_size:
            raise BadRequest(
                "data", f"must have a multiple of {loss.group_size} items, and one at least", len(data)
            )
        for index, datum in enumerate(data):
            check_datum(datum, index, loss, self.base.vocab_size, self.base.context)


def enable_checkpointing(causal: Any) -> None:
    """Let the layers of a model recompute their activations, by the name that transformers has for it."""
    names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")  # the latter in early 5.x
    enable = next(getattr(causal, name) for name in names if hasattr(causal, name))
    enable({"use_reentrant": False})
