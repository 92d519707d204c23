"""Turns an adapter into a NativeAdapter, where native code can compute all that it changes, and back."""

from collections.abc import Sequence

import torch
from torch import Tensor

from inference.model.fused.native_adapter import DeltaPlace, DeltaTensors, NativeAdapter
from inference.model.fused.runner import FusedRunner
from inference.model.lora.delta import AffineDelta, DeltaChain, LoraDelta, ModuleDelta
from inference.model.lora.weights import AdapterWeights, ModuleChange


def create_native_adapter(runner: FusedRunner, adapter: AdapterWeights) -> NativeAdapter | None:
    """The adapter for the runner; None if it changes something that native code does not compute."""
    places = runner.delta_places
    tensors: dict[DeltaPlace, DeltaTensors] = {}
    for name, delta in adapter.deltas.items():
        module = runner.model.get_submodule(name)
        changes = delta_tensors(delta, getattr(module, "bias", None))
        if changes is None or module not in places:
            return None
        tensors |= dict.fromkeys(places[module], changes)
    in_order = [place for each in places.values() for place in each if place in tensors]
    return NativeAdapter(len(runner.spec.layers), {place: tensors[place] for place in in_order})


def delta_tensors(delta: ModuleChange, bias: Tensor | None) -> DeltaTensors | None:
    """The change of a linear layer with this bias, which native code adds last; None for another change.

    The outputs are factor ∘ (x Wᵀ) + constant + the low-rank outputs.
    """
    a, b, factor = None, None, None
    own_bias = torch.zeros(()) if bias is None else bias.float()
    constant = own_bias
    for each in delta.deltas if isinstance(delta, DeltaChain) else [delta]:
        if isinstance(each, AffineDelta) and a is None:
            if each.factor is not None:
                factor = each.factor.float() * (1 if factor is None else factor)
                constant = constant * each.factor.float()
            constant = constant if each.shift is None else constant + each.shift.float()
        elif type(each) is LoraDelta and a is None:
            a, b = each.a, each.b_t.T
            constant = constant if each.bias is None else constant + each.bias.float()
        else:
            return None
    return DeltaTensors(a, b, factor, None if constant is own_bias else constant - own_bias)


def unpack_deltas(runner: FusedRunner, native: NativeAdapter) -> dict[str, ModuleDelta]:
    """What the adapter changes, by the names of the modules, for torch in the model's dtype."""
    deltas = {}
    for name, module in runner.model.named_modules():
        changes = [
            change for place in runner.delta_places.get(module, ()) if (change := native.unpack(place))
        ]
        if changes:
            deltas[name] = module_delta(changes, getattr(module, "bias", None), runner.model.dtype)
    return deltas


def module_delta(changes: Sequence[DeltaTensors], bias: Tensor | None, dtype: torch.dtype) -> ModuleDelta:
    """The inverse of delta_tensors: the change of a linear layer with this bias."""
    a = changes[0].a
    b, factor, shift = (join_outputs(values) for values in list(zip(*changes, strict=True))[1:])
    if factor is not None and bias is not None:
        own_bias = (1 - factor) * bias.float()
        shift = own_bias if shift is None else shift + own_bias
    deltas: list[ModuleDelta] = []
    if factor is not None or shift is not None:
        deltas.append(AffineDelta(*(None if each is None else each.to(dtype) for each in (factor, shift))))
    if a is not None and b is not None:
        deltas.append(LoraDelta(a.to(dtype), b.to(dtype)))
    return DeltaChain(deltas)


def join_outputs(values: Sequence[Tensor | None]) -> Tensor | None:
    """The values of all outputs; None if they have none."""
    tensors = [each for each in values if each is not None]
    return torch.cat(tensors) if tensors else None
