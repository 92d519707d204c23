"""How long a model of this machine takes until it is loaded, to tell clients when to return."""

from collections.abc import Collection

from inference.on_demand.managed_model import ManagedModel
from inference.on_demand.residency import Departures, MemoryCapacity


def seconds_until_loaded(
    model: ManagedModel, models: Collection[ManagedModel], capacity: MemoryCapacity, now: float
) -> float:
    """The loads before it, then its own. The first of them waits for the answers of models that leave."""
    earlier = [each for each in models if each.loading and each.queued_at < model.queued_at]
    loads_s = sum(each.remaining_load_s(now) for each in (*earlier, model))
    if any(each.status == "loading" for each in (*earlier, model)):
        return loads_s
    first = min((*earlier, model), key=lambda each: each.queued_at)
    others = [each for each in models if each.occupies_memory and each is not first]
    departures = capacity.choose_departures(others, first) or Departures()
    ends_s = [each.durations.last_end_s(each.answer_starts) for each in departures.leaving]
    return loads_s + max(ends_s, default=0.0)
