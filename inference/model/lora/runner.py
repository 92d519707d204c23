"""The runner of a model with adapters: steps without one go to the selected runner, others to one that can.

Compiled layers compute no deltas, and the fused runner only those that native code has: other steps with an
adapter run in a paged runner over the same pages, on a GPU with CUDA graphs of its own. Knows batches and
adapters; not where adapters come from.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.batch import Batch, Runner
from inference.model.fused.native_adapter import NativeAdapter
from inference.model.fused.runner import FusedRunner
from inference.model.lora.graph_runner import AdapterGraphRunner, import_low_rank_kernel
from inference.model.lora.modules import AdaptedModules
from inference.model.lora.split import join_rows, logits_order, pooled_order, select_rows
from inference.model.lora.weights import AdapterWeights
from inference.model.paged.attention import PagedAttention
from inference.model.paged.cuda_graphs import GraphRunner
from inference.model.paged.runner import PagedRunner
from inference.model.paged.sdpa import sdpa_kernel

ATTRIBUTE = "adapter_runner"  # of the model


class AdapterRunner:
    """A Runner (see batch.py) that also computes rows with adapters; other attributes are the runner's.

    runner         computes the steps without adapters
    delta_runner   computes the others
    adapters       the loaded adapters, by number
    deterministic  every row with an adapter is computed by itself
    """

    def __init__(self, model: PreTrainedModel, runner: Runner, deterministic: bool = False) -> None:
        self.model, self.runner, self.deterministic = model, runner, deterministic
        self._delta_runner: Runner | None = None
        self.modules = AdaptedModules(model)
        self.adapters: dict[int, AdapterWeights] = {}
        self.hidden_sums = torch.empty(0)
        setattr(model, ATTRIBUTE, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)

    @property
    def delta_runner(self) -> Runner:
        if self._delta_runner is None:
            self._delta_runner = create_delta_runner(
                self.model, self.runner, None if self.deterministic else self.modules
            )
        return self._delta_runner

    def add(self, adapter: AdapterWeights) -> None:
        self.adapters[adapter.number] = adapter
        self.modules.add(adapter)

    def remove(self, number: int) -> None:
        """Forget the weights of an adapter that no row has any more. Idempotent."""
        if number in self.adapters:
            self.modules.remove(self.adapters.pop(number))
        if isinstance(self.runner, FusedRunner):
            self.runner.adapters.pop(number, None)
        if isinstance(self._delta_runner, AdapterGraphRunner):
            self._delta_runner.slots.remove(number)

    def use_graphs(self, adapter: AdapterWeights) -> None:
        """Replay steps that decode with the adapter from now on, where that is possible."""
        if isinstance(self.delta_runner, AdapterGraphRunner):
            self.delta_runner.add(adapter)

    def use_native(self, adapter: AdapterWeights, native: NativeAdapter) -> None:
        """Compute the adapter in the fused runner from now on."""
        assert isinstance(self.runner, FusedRunner)
        self.modules.remove(adapter)
        self.runner.adapters[adapter.number] = adapter.native = native
        adapter.deltas = {}

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute the step: logits (W, V) in the model's dtype, on its device, valid until the next call."""
        if batch.adapter_ids:
            return self.forward_adapted(batch)
        logits = self.runner.forward(batch)
        self.hidden_sums = self.runner.hidden_sums
        return logits

    @torch.inference_mode()
    def forward_adapted(self, batch: Batch) -> torch.Tensor:
        """As forward, for a step in which some rows have adapters."""
        groups = self.divide(batch)
        if len(groups) == 1:
            return self.compute(batch)
        logits, hidden_sums = [], []
        for index, rows in enumerate(groups):
            group = select_rows(batch, rows, with_ops=index == 0)
            logits.append(self.compute(group).clone())
            hidden_sums += [self.hidden_sums] if group.pooled_rows else []
        if hidden_sums:
            self.hidden_sums = join_rows(hidden_sums, pooled_order(batch, groups))
        return join_rows(logits, logits_order(batch, groups))

    def compute(self, batch: Batch) -> torch.Tensor:
        """Compute a step that need not be divided."""
        adapters = [self.adapters[number] for number in set(batch.adapter_ids) if number]
        in_torch = any(adapter.native is None for adapter in adapters)
        runner = self.delta_runner if in_torch else self.runner
        with self.modules.installed(adapters):
            logits = runner.forward(batch)
        self.hidden_sums = runner.hidden_sums
        return logits

    def divide(self, batch: Batch) -> Sequence[Sequence[int]]:
        """The rows to compute together, as lists of indices: one list unless that is impossible."""
        adapters = [self.adapters.get(number) for number in batch.adapter_ids]
        in_torch = [adapter for adapter in adapters if adapter is not None and adapter.native is None]
        if not in_torch:
            return (range(len(adapters)),)
        shares = not self.deterministic and not any(adapter.unbatched for adapter in in_torch)
        groups: dict[tuple[bool, int], list[int]] = {}
        for row, adapter in enumerate(adapters):
            is_native = adapter.native is not None if adapter is not None else not shares
            number = 0 if adapter is None or is_native or shares else adapter.number
            groups.setdefault((is_native, row if self.deterministic and number else number), []).append(row)
        return list(groups.values())


def create_delta_runner(
    model: PreTrainedModel, runner: Runner, modules: AdaptedModules | None = None
) -> Runner:
    """The runner itself if it calls the model's modules in every step, else a paged runner over its pages.

    modules: those that adapters change, for graphs of such steps; None: no graphs.
    """
    add_low_rank = import_low_rank_kernel(model.device)
    if isinstance(runner, GraphRunner) and runner.graphs and modules and add_low_rank:
        return AdapterGraphRunner(model, runner, modules, add_low_rank)
    if isinstance(runner, PagedRunner):
        if type(runner) is PagedRunner and type(runner.attention) is PagedAttention:
            return runner
        kernel = runner.kernel
    elif isinstance(runner, FusedRunner):
        kernel = sdpa_kernel
    else:
        return runner
    return PagedRunner(
        model, runner.pool, max_sequences=runner.max_sequences, context=runner.context, kernel=kernel
    )


def adapter_runner_of(model: Any) -> AdapterRunner:
    """The AdapterRunner that was created for the model."""
    runner: AdapterRunner = getattr(model, ATTRIBUTE)
    return runner
