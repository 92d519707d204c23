"""Applies the adapters of a step: modules compute as always, then the deltas of the tokens with adapters.

A module has another `forward` only while a step runs with one of its adapters: other steps cost nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from inference.model.forward_pass.forward_context import ForwardContext, get_forward_context
from inference.model.forward_pass.step_adapters import ALL_TOKENS, StepAdapters, TokenGroup
from inference.model.lora.replaced_module import ReplacedModule
from inference.model.lora.weights import AdapterWeights, ModuleChange


class AdaptedForward:
    """The forward of a module, followed by the deltas of its adapters.

    module            the module
    inner             its own forward
    is_head           whether the module computes the logits: it may get some of the tokens only
    deltas            by the adapters' numbers
    num_calls         how often each adapter's delta was applied
    has_other_inputs  whether it was called with other tokens than all that the pass computes, as a router's
                      experts are: its tokens must then have one adapter
    """

    def __init__(self, module: nn.Module, is_head: bool) -> None:
        self.module, self.inner, self.is_head = module, module.forward, is_head
        self.by_id = isinstance(module, nn.Embedding)
        self.deltas: dict[int, ModuleChange] = {}
        self.num_calls: Counter[int] = Counter()
        self.has_other_inputs = False

    def __call__(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        context = get_forward_context()
        if context is None or context.adapters is None:
            return self.inner(input, *args, **kwargs)
        num_tokens = input.numel() if self.by_id else input.numel() // input.shape[-1]
        groups = self.groups_of(num_tokens, input.device, context, context.adapters)
        for group in groups:
            self.num_calls[group.number] += 1
        if (module := self.only_module(groups)) is not None:
            return module.forward(input, *args, **kwargs)
        output = self.inner(input, *args, **kwargs)
        self.apply(groups, output, input, *args, **kwargs)
        return output

    def groups_of(
        self, num_tokens: int, device: torch.device, context: ForwardContext, adapters: StepAdapters
    ) -> Sequence[TokenGroup]:
        """The tokens of each adapter that changes this module, among the num_tokens that it gets."""
        of_logits = self.is_head and context.logits_selected
        groups = adapters.groups(of_logits, device)
        if not adapters.has_inputs(num_tokens, of_logits):
            self.has_other_inputs = True
            groups = [TokenGroup(adapters.only_adapter(), ALL_TOKENS)]
        return [group for group in groups if group.number in self.deltas]

    def only_module(self, groups: Sequence[TokenGroup]) -> ReplacedModule | None:
        """The module that an adapter of all tokens has in the place of this one; None if there is none."""
        if len(groups) != 1 or groups[0].tokens is not ALL_TOKENS:
            return None
        delta = self.deltas[groups[0].number]
        return delta if isinstance(delta, ReplacedModule) else None

    def apply(
        self, groups: Sequence[TokenGroup], output: Any, input: Tensor, *args: Any, **kwargs: Any
    ) -> None:
        """Change the outputs of the groups in place: a tensor, or a tuple with a row for each token."""
        for number, tokens in groups:
            delta = self.deltas[number]
            if isinstance(delta, ReplacedModule):
                select = partial(self.select, tokens)
                replaced = delta.forward(*tree_map(select, (input, *args)), **tree_map(select, kwargs))
                for values, row_values in zip(as_tuple(output), as_tuple(replaced), strict=True):
                    values.view(-1, values.shape[-1])[tokens] = row_values
                continue
            rows = output.view(-1, output.shape[-1])
            before = rows if tokens is ALL_TOKENS else rows[tokens]
            after = delta.apply(self.select(tokens, input), before)
            if after is not before or not isinstance(tokens, slice):
                rows[tokens] = after

    def select(self, tokens: slice | Tensor, argument: Any) -> Any:
        """The rows of these tokens of an argument; what is no tensor belongs to all of them."""
        if not isinstance(argument, Tensor):
            return argument
        rows = argument.reshape(-1) if self.by_id else argument.reshape(-1, argument.shape[-1])
        return rows if tokens is ALL_TOKENS else rows[tokens]


def as_tuple(output: Any) -> tuple[Tensor, ...]:
    return output if isinstance(output, tuple) else (output,)


class AdaptedModules:
    """The modules of a model that loaded adapters change."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.forwards: dict[str, AdaptedForward] = {}

    def add(self, adapter: AdapterWeights) -> None:
        head = self.model.get_output_embeddings()
        for name, delta in adapter.deltas.items():
            if name not in self.forwards:
                module = self.model.get_submodule(name)
                self.forwards[name] = AdaptedForward(module, module is head)
            self.forwards[name].deltas[adapter.number] = delta

    def remove(self, adapter: AdapterWeights) -> None:
        """Forget the deltas of an adapter, also of one that was added in part as memory ran out."""
        for name in adapter.deltas.keys() & self.forwards.keys():
            deltas = self.forwards[name].deltas
            deltas.pop(adapter.number, None)
            if not deltas:
                del self.forwards[name]

    @contextmanager
    def installed(self, adapters: Iterable[AdapterWeights]) -> Iterator[None]:
        """Within the context, the modules of these adapters compute their deltas too."""
        names = {name for adapter in adapters for name in adapter.deltas}
        forwards = [self.forwards[name] for name in names]
        with replaced_forwards({forward.module: forward for forward in forwards}):
            yield

    def num_calls(self, adapter: AdapterWeights) -> Mapping[str, int]:
        """How often each module of the adapter has applied its delta."""
        return {name: self.forwards[name].num_calls[adapter.number] for name in adapter.deltas}

    def has_other_inputs(self, adapter: AdapterWeights) -> bool:
        """Whether a module of the adapter was called with other tokens than all of a pass."""
        return any(self.forwards[name].has_other_inputs for name in adapter.deltas)


@contextmanager
def replaced_forwards(forwards: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Within the context, calling the modules calls these functions instead."""
    previous = {module: module.__dict__.get("forward") for module in forwards}
    try:
        for module, forward in forwards.items():
            module.__dict__["forward"] = forward
        yield
    finally:
        for module, before in previous.items():
            if before is None:
                module.__dict__.pop("forward", None)  # absent if memory ran out before it was set
            else:
                module.__dict__["forward"] = before
