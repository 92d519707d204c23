"""Applies the adapters of a step: modules compute as always, then the deltas of the tokens with adapters.

A module has another `forward` only while a step runs with one of its adapters: other steps cost nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from inference.model.forward_context import ForwardContext, get_forward_context
from inference.model.lora.delta import ModuleDelta
from inference.model.lora.weights import AdapterWeights
from inference.model.step_adapters import StepAdapters, TokenGroup


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
        self.deltas: dict[int, ModuleDelta] = {}
        self.num_calls: Counter[int] = Counter()
        self.has_other_inputs = False

    def __call__(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        output = self.inner(input, *args, **kwargs)
        context = get_forward_context()
        if context is not None and context.adapters is not None:
            self.apply(input, output, context, context.adapters)
        return output

    def apply(self, input: Tensor, output: Tensor, context: ForwardContext, adapters: StepAdapters) -> None:
        """Change the outputs of the tokens with adapters in place."""
        inputs = input.reshape(-1) if self.by_id else input.reshape(-1, input.shape[-1])
        outputs = output.view(-1, output.shape[-1])
        of_logits = self.is_head and context.logits_selected
        groups = adapters.groups(of_logits, outputs.device)
        if not adapters.has_inputs(len(outputs), of_logits):
            self.has_other_inputs = True
            groups = [TokenGroup(adapters.only_adapter(), slice(0, len(outputs)))]
        for number, tokens in groups:
            delta = self.deltas.get(number)
            if delta is None:
                continue
            self.num_calls[number] += 1
            before = outputs[tokens]
            after = delta.apply(inputs[tokens], before)
            if after is not before or not isinstance(tokens, slice):
                outputs[tokens] = after


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
        for name in adapter.deltas:
            deltas = self.forwards[name].deltas
            del deltas[adapter.number]
            if not deltas:
                del self.forwards[name]

    @contextmanager
    def installed(self, adapters: Iterable[AdapterWeights]) -> Iterator[None]:
        """Within the context, the modules of these adapters compute their deltas too."""
        names = {name for adapter in adapters for name in adapter.deltas}
        forwards = [self.forwards[name] for name in names]
        previous = [forward.module.__dict__.get("forward") for forward in forwards]
        try:
            for forward in forwards:
                forward.module.__dict__["forward"] = forward
            yield
        finally:
            for forward, before in zip(forwards, previous, strict=True):
                if before is None:
                    del forward.module.__dict__["forward"]
                else:
                    forward.module.__dict__["forward"] = before

    def num_calls(self, adapter: AdapterWeights) -> Mapping[str, int]:
        """How often each module of the adapter has applied its delta."""
        return {name: self.forwards[name].num_calls[adapter.number] for name in adapter.deltas}

    def has_other_inputs(self, adapter: AdapterWeights) -> bool:
        """Whether a module of the adapter was called with other tokens than all of a pass."""
        return any(self.forwards[name].has_other_inputs for name in adapter.deltas)
