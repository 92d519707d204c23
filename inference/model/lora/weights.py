"""The weights of a loaded adapter. They belong to the model's thread."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inference.model.fused.native_adapter import NativeAdapter
from inference.model.lora.delta import ModuleDelta
from inference.model.lora.replaced_module import ReplacedModule

ModuleChange = ModuleDelta | ReplacedModule


@dataclass(slots=True, eq=False)
class AdapterWeights:
    """The weights of one adapter, on the devices and in the dtype of the model.

    number      of the load: Batch.adapter_ids names it
    deltas      what it changes, by the module's name in the model; empty if native code computes it
    has_effect  whether a value of it changes anything
    unbatched   whether all rows of a step with it must have it: a module of the model gets the tokens in an
                order of its own, as a router's experts do
    native      the same for native code
    """

    number: int
    deltas: Mapping[str, ModuleChange]
    has_effect: bool
    unbatched: bool = False
    native: NativeAdapter | None = None

    @property
    def nbytes(self) -> int:
        in_torch = sum(delta.nbytes for delta in self.deltas.values())
        return in_torch if self.native is None else self.native.nbytes

    def nbytes_by_device(self, model: Any) -> Iterator[tuple[str, int]]:
        """Devices of the model with bytes on them; a device may come several times."""
        if self.native is not None:
            yield "cpu", self.native.nbytes
        for name, delta in self.deltas.items():
            yield str(next(model.get_submodule(name).parameters()).device), delta.nbytes
