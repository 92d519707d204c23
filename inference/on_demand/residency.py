"""Which models are in memory together, and which ones leave to make room. Plain numbers only.

Knows what each model needs on each device, and the capacity of the devices. Does not know how a model is
loaded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Occupant(Protocol):
    """A model that needs memory.

    needs        bytes on each device while it is loaded
    num_running  requests that it answers now
    last_used    when its last answer ended, on any clock
    is_pinned    it never leaves
    """

    @property
    def needs(self) -> Mapping[str, int]: ...
    @property
    def num_running(self) -> int: ...
    @property
    def last_used(self) -> float: ...
    @property
    def is_pinned(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class MemoryCapacity:
    """What the models have together.

    num_bytes   on each device
    max_models  in memory at the same time
    """

    num_bytes: Mapping[str, int]
    max_models: int

    def has_room_for(self, models: Iterable[Occupant]) -> bool:
        """Whether all the models fit together."""
        together = list(models)
        return len(together) <= self.max_models and all(
            sum(model.needs.get(device, 0) for model in together) <= limit
            for device, limit in self.num_bytes.items()
        )

    def choose_leaving(self, loaded: Sequence[Occupant], incoming: Occupant) -> list[Occupant] | None:
        """The models that leave so that `incoming` fits: idle ones first, then the least recently used.

        None: it does not fit beside the pinned models.
        """
        leaving: list[Occupant] = []
        candidates = sorted(
            (model for model in loaded if not model.is_pinned),
            key=lambda model: (model.num_running > 0, model.last_used),
        )
        for candidate in candidates:
            if self.has_room_for([incoming, *(model for model in loaded if model not in leaving)]):
                return leaving
            leaving.append(candidate)
        remaining = [model for model in loaded if model not in leaving]
        return leaving if self.has_room_for([incoming, *remaining]) else None
