"""How long a model of this machine takes until it is loaded, to tell clients when to return."""

from collections.abc import Collection, Iterable, Sequence

from inference.on_demand.managed_model import ManagedModel
from inference.on_demand.residency import Departures, MemoryCapacity


def seconds_until_loaded(
    model: ManagedModel, models: Collection[ManagedModel], capacity: MemoryCapacity, now: float
) -> float:
    """The loads before it, then its own. Before each, the models leave whose memory it needs."""
    earlier = [each for each in models if each.loading and each.queued_at < model.queued_at]
    resident = [each for each in models if each.occupies_memory]
    loaded: list[ManagedModel] = []
    seconds = 0.0
    for incoming in (*sorted(earlier, key=lambda each: each.queued_at), model):
        if incoming.status != "loading":
            others = [each for each in resident if each is not incoming]
            leaving = choose_leaving(others, loaded, incoming, capacity)
            seconds += max(map(seconds_until_unloaded, leaving), default=0.0)
            resident = [each for each in others if each not in leaving]
        seconds += incoming.remaining_load_s(now)
        resident.append(incoming)
        loaded.append(incoming)
    return seconds


def choose_leaving(
    others: Sequence[ManagedModel],
    loaded: Collection[ManagedModel],
    incoming: ManagedModel,
    capacity: MemoryCapacity,
) -> Sequence[ManagedModel]:
    """Who leaves so that `incoming` fits. loaded: those of the others that will be awake by then"""
    leaving = (capacity.choose_departures(others, incoming) or Departures()).leaving
    staying = [each for each in others if each not in leaving and (each in loaded or not each.is_asleep)]
    if capacity.has_room_for([incoming, *staying]):
        return leaving
    return [*leaving, *(each for each in loaded if each in staying)]


def seconds_until_unloaded(model: ManagedModel) -> float:
    """Seconds until the model's answers have ended and its memory is free.

    One that is loaded for requests that wait, or for a client that is to return, answers before it leaves.
    """
    if model.status in ("sleeping", "unloading"):
        return model.leave_s
    is_awaited = model.is_expected or not model.occupies_memory
    answers_s = model.running_answers.durations.mean_s if is_awaited else model.running_answers.last_end_s()
    return answers_s + model.leave_s


def share_example(model: ManagedModel, models: Iterable[ManagedModel]) -> None:
    """The load of one model is the best guess for those that have not been loaded yet."""
    for each in models:
        if not each.loads.has_run:
            each.loads.example = model.loads.example
