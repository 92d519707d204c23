"""Runs the model in one process or on all ranks: engine steps, other computations of the model, memory usage.

All ranks execute the same work at the same time; only rank 0 uses the results. Knows the engine's Runner and
the messages for the other ranks.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

import torch

from inference.model.batch import Batch, Runner
from inference.model.load.loader import LoadedModel
from inference.model.memory_usage import MemoryUsage, measure_memory
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.tensor_parallel.messages import (
    AdvanceTask,
    BeginTask,
    CallbackResult,
    EndTask,
    ForwardStep,
    MeasureMemory,
    WorkerMessage,
)
from inference.model.tensor_parallel.rank_processes import RankProcesses
from inference.model.tensor_parallel.recipe import LoadRecipe
from inference.model.tensor_parallel.worker import gather_memory_usage

Task = Generator[Any, None, Any]
Callback = Callable[[torch.Tensor], torch.Tensor]
MemoryUsages = Generator[None, None, list[MemoryUsage]]


class SingleProcess:
    """The whole model in this process."""

    def __init__(self, recipe: LoadRecipe) -> None:
        self.recipe = recipe

    def start(self) -> tuple[LoadedModel, SelectedRunner]:
        """Load the model and select its runner. Raises ServerError."""
        return self.recipe.load_model()

    def wrap_runner(self, runner: Runner) -> Runner:
        return runner

    def run(self, function: Callable[..., Task], model: Any, *args: Any, **kwargs: Any) -> Task:
        """The generator function(model, *args, **kwargs)."""
        return function(model, *args, **kwargs)

    def measure_memory(
        self, model: Any, runner: Runner, gpus: Sequence[int], reset_peaks: bool
    ) -> MemoryUsages:
        """A generator that returns the memory usage of every process: here, of this one."""
        yield
        return [measure_memory(model, runner, gpus, reset_peaks)]

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """No effect: there is no other process to lose."""

    def close(self) -> None:
        """No effect: there is no other process to end."""


class MultiProcess:
    """The model split over several processes, of which this one is rank 0."""

    def __init__(self, recipe: LoadRecipe) -> None:
        self.ranks = RankProcesses(recipe)
        self.start, self.close = self.ranks.start, self.ranks.close
        self.on_lost = self.ranks.on_lost
        self._ids = count()

    def wrap_runner(self, runner: Runner) -> Runner:
        return cast(Runner, RankedRunner(runner, self.ranks))

    def run(self, function: Callable[..., Task], model: Any, *args: Any, **kwargs: Any) -> Task:
        """The generator function(model, *args, **kwargs); every rank executes each of its steps together.

        The functions among kwargs take and return a tensor: rank 0 calls them, and sends the results to the
        other ranks. Raises Unavailable once a rank is lost.
        """
        callbacks = {name: self._send_result(value) for name, value in kwargs.items() if callable(value)}
        values = {name: value for name, value in kwargs.items() if name not in callbacks}
        task, id = function(model, *args, **values, **callbacks), next(self._ids)
        self.ranks.send(BeginTask(id, function, args, values, tuple(callbacks)))
        try:
            while True:
                with on_all_ranks(self.ranks, AdvanceTask(id)):
                    try:
                        value = next(task)
                    except StopIteration as done:
                        return done.value
                yield value
        finally:
            task.close()
            if not self.ranks.lost:
                self.ranks.send(EndTask(id))

    def measure_memory(
        self, model: Any, runner: Runner, gpus: Sequence[int], reset_peaks: bool
    ) -> MemoryUsages:
        """A generator that returns the memory usage of every rank; with `gpus`, each measures its own GPU."""
        yield
        with on_all_ranks(self.ranks, MeasureMemory(tuple(gpus), reset_peaks)):
            return gather_memory_usage(model, runner, gpus, reset_peaks)

    def _send_result(self, callback: Callback) -> Callback:
        """The callback, which also sends its result to the other ranks."""

        def call_and_send(argument: torch.Tensor) -> torch.Tensor:
            try:
                result = callback(argument)
                values = result.cpu().numpy()
            except Exception:
                self.ranks.send(CallbackResult(None))
                raise
            self.ranks.send(CallbackResult(values))
            return result

        return call_and_send


@contextmanager
def on_all_ranks(ranks: RankProcesses, message: WorkerMessage) -> Iterator[None]:
    """Have the other ranks execute the message while the body does the same on rank 0.

    Raises Unavailable once a rank is lost, or if the body fails and another rank does not.
    """
    ranks.send(message)
    try:
        yield
    except Exception:
        ranks.resync()
        raise


class RankedRunner:
    """A Runner (see batch.py) whose steps all ranks compute; other attributes are rank 0's."""

    def __init__(self, runner: Runner, ranks: RankProcesses) -> None:
        self._runner = runner
        self._ranks = ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step on all ranks: logits (W, V) of rank 0. Raises Unavailable once a rank is lost."""
        with on_all_ranks(self._ranks, ForwardStep(batch)):
            return self._runner.forward(batch)
