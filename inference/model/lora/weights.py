"""The weights of a loaded adapter: a Delta for each module that it changes. Belongs to the model's thread."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference.model.lora.delta import Delta


@dataclass(slots=True, eq=False)
class AdapterWeights:
    """The weights of one adapter, on the devices and in the dtype of the model.

    number      of the load: Batch.adapter_ids names it
    deltas      what it changes, by the module's name in the model
    has_effect  whether a value of it changes anything
    unbatched   whether all rows of a step with it must have it: a module of the model gets the tokens in an
                order of its own, as a router's experts do
    """

    number: int
    deltas: Mapping[str, Delta]
    has_effect: bool
    unbatched: bool = False

    @property
    def nbytes(self) -> int:
        return sum(delta.nbytes for delta in self.deltas.values())
