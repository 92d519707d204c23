"""Data parallelism: the rows of each pass are divided among processes, each with a replica of the model.

Rank 0 gets the sums of all gradients, has the only optimizer, and gives the others its new weights. Between
two verbs a run is as in one process: saving it, dropping a pass and going on with another number of processes
need nothing here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig

from tuning.trainer.data_parallel.collectives import copy_weights, sum_gradients
from tuning.trainer.data_parallel.messages import ReplicaSetup, raise_failures
from tuning.trainer.data_parallel.replicas import Replica, ReplicaDied, ReplicaGroup
from tuning.trainer.datum import Datum
from tuning.trainer.losses.table import find_loss
from tuning.trainer.micro_batches import Layout
from tuning.trainer.model.base_model import BaseModel
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.pass_result import PassResult
from tuning.trainer.trainer import DEFAULT_LAYOUT, Trainer
from tuning.types import JobSpec, TrainingBase


class DataParallelTrainer(Trainer):
    """A Trainer whose passes are computed by `replicas`, too. Its verbs raise ReplicaDied as well."""

    def __init__(self, base: BaseModel, replicas: ReplicaGroup, **options: Any) -> None:
        super().__init__(base, **options)
        self._replicas = replicas

    def add_adapter(self, run_id: str, config: LoraConfig, optimizer: str, seed: int) -> int:
        num_trained = super().add_adapter(run_id, config, optimizer, seed)
        self._create_on_others("add_adapter", run_id, config, optimizer, seed)
        self._share_weights(run_id)
        return num_trained

    def create_full_run(self, run_id: str, optimizer: str = "adamw") -> int:
        num_trained = super().create_full_run(run_id, optimizer)
        self._create_on_others("create_full_run", run_id, optimizer)
        return num_trained

    def compute(
        self, run_id: str, data: Sequence[Datum], loss_fn: str, config: Mapping[str, float]
    ) -> PassResult:
        shares = divide_rows(data, find_loss(loss_fn).group_size, self._replicas.num_processes)
        with_gradients = torch.is_grad_enabled()
        called = self._replicas.send(
            "compute_share",
            [
                (self.layout, with_gradients, run_id, select(data, share), loss_fn, config) if share else None
                for share in shares[1:]
            ],
        )
        own = self._compute_own(called, run_id, select(data, shares[0]), loss_fn, config)
        others = self._replicas.replies(called)
        raise_failures(others)
        if with_gradients:
            self._sum_gradients(run_id)
        return merge([own, *others], shares)

    def optim_step(self, run_id: str, params: AdamParams) -> float:
        norm = super().optim_step(run_id, params)
        self._share_weights(run_id)
        return norm

    def load(self, run_id: str, folder: Path, *, with_optimizer: bool) -> None:
        super().load(run_id, folder, with_optimizer=with_optimizer)
        self._share_weights(run_id)

    def delete_run(self, run_id: str) -> None:
        super().delete_run(run_id)
        self._replicas.call("delete_run", run_id)

    def close(self) -> None:
        """End the other processes."""
        self._replicas.close()

    def _create_on_others(self, verb: str, run_id: str, *arguments: Any) -> None:
        """Create on the others a run that this process has. If one of them fails, no process has it."""
        try:
            self._replicas.call(verb, run_id, *arguments)
        except ReplicaDied:
            raise
        except Exception:
            super().delete_run(run_id)
            self._replicas.call("discard_run", run_id)
            raise

    def _compute_own(
        self,
        others: Sequence[Replica],
        run_id: str,
        data: Sequence[Datum],
        loss_fn: str,
        config: Mapping[str, float],
    ) -> PassResult:
        """Compute rank 0's share. If that fails, the shares of the others end, too."""
        try:
            return super().compute(run_id, data, loss_fn, config)
        except BaseException:
            self._replicas.interrupt()
            self._replicas.replies(others)
            raise

    def _sum_gradients(self, run_id: str) -> None:
        parameters = self.parameters(run_id)
        self._replicas.collective("give_gradients", run_id, lambda: sum_gradients(parameters))

    def _share_weights(self, run_id: str) -> None:
        parameters = self.parameters(run_id)
        self._replicas.collective("take_weights", run_id, lambda: copy_weights(parameters))


def open_trainer(
    base: BaseModel,
    spec: JobSpec | TrainingBase,
    quantize: str,
    *,
    layout: Layout = DEFAULT_LAYOUT,
    checkpointing: bool = False,
    scores_masked: bool = False,
) -> Trainer:
    """The trainer of a base that was opened with spec and quantize, over spec.num_processes processes."""
    options = {"checkpointing": checkpointing, "scores_masked": scores_masked}
    if spec.num_processes == 1:
        return Trainer(base, layout=layout, **options)
    replicas = ReplicaGroup(ReplicaSetup(spec, quantize, **options))
    return DataParallelTrainer(base, replicas, layout=layout, **options)


def divide_rows(data: Sequence[Datum], group_size: int, num_processes: int) -> list[list[int]]:
    """The indices of the data of each process, ascending: whole groups, rank 0 first, some may have none.

    Groups are dealt from the longest to the shortest, there and back, so that shares have similar lengths.
    """
    groups = [range(first, first + group_size) for first in range(0, len(data), group_size)]
    groups.sort(key=lambda group: -max(len(data[index]) for index in group))
    shares: list[list[int]] = [[] for _ in range(num_processes)]
    for first in range(0, len(groups), num_processes):
        order = shares if first // num_processes % 2 == 0 else shares[::-1]
        for share, group in zip(order, groups[first : first + num_processes], strict=False):
            share += group
    return [sorted(share) for share in shares]


def select(data: Sequence[Datum], indices: Sequence[int]) -> list[Datum]:
    return [data[index] for index in indices]


def merge(results: Sequence[PassResult], shares: Sequence[Sequence[int]]) -> PassResult:
    """The result of a whole pass from those of its shares, of which empty ones have none."""
    logprobs = {
        index: values
        for result, share in zip(results, filter(None, shares), strict=True)
        for index, values in zip(share, result.logprobs, strict=True)
    }
    return PassResult(
        sum(result.loss for result in results),
        [logprobs[index] for index in range(len(logprobs))],
        sum(result.num_correct for result in results),
        sum(result.num_scored for result in results),
    )
