"""Runs the model in one process or on all ranks: engine steps, embeddings, contrastive search, memory usage.

All ranks execute the same work at the same time; only rank 0 uses the results. Knows the engine's Runner and
the messages for the other ranks.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from typing import Any, cast

import torch

from inference.model import contrastive_search, pooling
from inference.model.batch import Batch, Runner
from inference.model.contrastive_search import ProcessLogits
from inference.model.load.loader import LoadedModel
from inference.model.memory_usage import MemoryUsage, measure_memory
from inference.model.select_runner import SelectedRunner
from inference.model.tensor_parallel.messages import (
    AdvanceTask,
    BeginTask,
    EditedLogits,
    EndTask,
    ForwardStep,
)
from inference.model.tensor_parallel.rank_processes import RankProcesses
from inference.model.tensor_parallel.worker import LoadRecipe, gather_memory_usage

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

    embed = staticmethod(pooling.embed)
    search = staticmethod(contrastive_search.search)

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

    def embed(
        self, model: Any, inputs: Sequence[Sequence[int]]
    ) -> Generator[None, None, list[pooling.Vector]]:
        """pooling.embed, on every rank."""
        return self._run_on_all_ranks(
            pooling.embed(model, inputs), BeginTask(next(self._ids), "embed", (inputs,))
        )

    def search(
        self,
        model: Any,
        ids: Sequence[int],
        encoder_ids: Sequence[int],
        *,
        k: int,
        alpha: float,
        process_logits: ProcessLogits,
    ) -> Iterator[int]:
        """contrastive_search.search, on every rank: rank 0 edits the logits and sends them to the others."""

        def process_and_send(logits: torch.Tensor) -> torch.Tensor:
            try:
                result = process_logits(logits)
                values = result.cpu().numpy()
            except Exception:
                self.ranks.send(EditedLogits(None))
                raise
            self.ranks.send(EditedLogits(values))
            return result

        work = contrastive_search.search(
            model, ids, encoder_ids, k=k, alpha=alpha, process_logits=process_and_send
        )
        return self._run_on_all_ranks(
            work, BeginTask(next(self._ids), "search", (ids, encoder_ids), {"k": k, "alpha": alpha})
        )

    def measure_memory(
        self, model: Any, runner: Runner, gpus: Sequence[int], reset_peaks: bool
    ) -> MemoryUsages:
        """A generator that returns the memory usage of every rank; with `gpus`, each measures its own GPU."""
        return self._run_on_all_ranks(
            gather_memory_usage(model, runner, gpus, reset_peaks),
            BeginTask(next(self._ids), "measure_memory", (tuple(gpus), reset_peaks)),
        )

    def _run_on_all_ranks(self, work: Any, begin: BeginTask) -> Generator[Any, None, Any]:
        """Run the generator `work`; every rank executes each of its steps at the same time.

        Raises Unavailable once a rank is lost.
        """
        self.ranks.send(begin)
        try:
            while True:
                self.ranks.send(AdvanceTask(begin.id))
                try:
                    value = next(work)
                except StopIteration as done:
                    return done.value
                except Exception:
                    self.ranks.resync()
                    raise
                yield value
        finally:
            work.close()
            if not self.ranks.lost:
                self.ranks.send(EndTask(begin.id))


class RankedRunner:
    """A Runner (see batch.py) whose steps all ranks compute; other attributes are rank 0's."""

    def __init__(self, runner: Runner, ranks: RankProcesses) -> None:
        self._runner = runner
        self._ranks = ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step on all ranks: logits (W, V) of rank 0. Raises Unavailable once a rank is lost."""
        self._ranks.send(ForwardStep(batch))
        try:
            return self._runner.forward(batch)
        except Exception:
            self._ranks.resync()
            raise
