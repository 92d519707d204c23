"""Which models are in memory together, and which ones leave to make room. Plain numbers only.

Knows what each model needs on each device, awake and asleep, and the capacity of the devices. Does not know
how a model is loaded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Occupant(Protocol):
    """A model that needs memory.

    needs         bytes on each device while it is awake
    needs_asleep  bytes on each device while it sleeps; None: it cannot sleep
    is_asleep     whether it sleeps
    num_running   requests that it answers now
    last_used     when its last answer ended, on any clock
    is_pinned     it never leaves
    """

    @property
    def needs(self) -> Mapping[str, int]: ...
    @property
    def needs_asleep(self) -> Mapping[str, int] | None: ...
    @property
    def is_asleep(self) -> bool: ...
    @property
    def num_running(self) -> int: ...
    @property
    def last_used(self) -> float: ...
    @property
    def is_pinned(self) -> bool: ...


Model = TypeVar("Model", bound=Occupant)


@dataclass(frozen=True, slots=True)
class Departures(Generic[Model]):
    """The models that leave so that another one fits.

    to_sleep   are awake, and give back what they can read again
    to_unload  are awake or asleep
    """

    to_sleep: Sequence[Model] = ()
    to_unload: Sequence[Model] = ()

    @property
    def leaving(self) -> Sequence[Model]:
        return [*self.to_sleep, *self.to_unload]


@dataclass(frozen=True, slots=True)
class MemoryCapacity:
    """What the models have together.

    num_bytes   on each device
    max_models  awake at the same time
    """

    num_bytes: Mapping[str, int]
    max_models: int

    def has_room_for(self, awake: Iterable[Occupant], asleep: Iterable[Occupant] = ()) -> bool:
        """Whether all the models fit together."""
        awake = list(awake)
        needs = [*(model.needs for model in awake), *(model.needs_asleep or {} for model in asleep)]
        return len(awake) <= self.max_models and all(
            sum(each.get(device, 0) for each in needs) <= limit for device, limit in self.num_bytes.items()
        )

    def choose_departures(self, loaded: Sequence[Model], incoming: Model) -> Departures[Model] | None:
        """Who leaves so that `incoming` fits: idle models first, then the least recently used.

        They sleep where the models that stay awake leave room, the most recently used first.
        None: `incoming` does not fit beside the pinned models.
        """
        awake = [model for model in loaded if not model.is_asleep]
        leaving = self._choose_leaving(awake, incoming)
        if leaving is None:
            return None
        staying = [incoming, *(model for model in awake if model not in leaving)]
        candidates = [*leaving, *(model for model in loaded if model.is_asleep)]
        sleeping: list[Model] = []
        for model in sorted(candidates, key=lambda each: each.last_used, reverse=True):
            if model.needs_asleep is not None and self.has_room_for(staying, [*sleeping, model]):
                sleeping.append(model)
        return Departures(
            [model for model in leaving if model in sleeping],
            [model for model in candidates if model not in sleeping],
        )

    def _choose_leaving(self, awake: Sequence[Model], incoming: Model) -> list[Model] | None:
        """The awake models that leave. Sleeping ones are in nobody's way: they can be unloaded."""
        leaving: list[Model] = []
        candidates = sorted(
            (model for model in awake if not model.is_pinned),
            key=lambda model: (model.num_running > 0, model.last_used),
        )
        for candidate in candidates:
            if self.has_room_for([incoming, *(model for model in awake if model not in leaving)]):
                return leaving
            leaving.append(candidate)
        remaining = [model for model in awake if model not in leaving]
        return leaving if self.has_room_for([incoming, *remaining]) else None
