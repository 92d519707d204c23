"""How long a model of this machine takes until it is loaded, to tell clients when to return."""

from collections.abc import Collection, Iterable, Sequence
from operator import add
from statistics import mean

from inference.on_demand.managed_model import ManagedModel
from inference.on_demand.residency import Departures, MemoryCapacity


def seconds_until_loaded(
    model: ManagedModel,
    models: Collection[ManagedModel],
    capacity: MemoryCapacity,
    swap_s: float,
    now: float,
) -> float:
    """The loads before it, then its own. Before each, the models leave whose memory it needs.

    swap_s: as LoadLimits.swap_s
    """
    earlier = [each for each in models if each.loading and each.queued_at < model.queued_at]
    resident = [each for each in models if each.occupies_memory]
    loaded: list[ManagedModel] = []
    seconds = 0.0
    for incoming in (*sorted(earlier, key=lambda each: each.queued_at), model):
        if incoming.status != "loading":
            others = [each for each in resident if each is not incoming]
            leaving = choose_leaving(others, loaded, incoming, capacity)
            stays_s = [
                awaited_stay_s(each, swap_s)
                if each in loaded
                else rest_of_stay_s(each, incoming, swap_s, now)
                for each in leaving
            ]
            seconds += max(map(add, stays_s, (each.leave_s for each in leaving)), default=0.0)
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


def awaited_stay_s(model: ManagedModel, swap_s: float) -> float:
    """How long a model will stay that is to be loaded for requests that wait, or for a client's return."""
    if model.num_waiting or not model.is_requested:
        return model.running_answers.durations.mean_s
    return stay_until_return_s(model, 0.0, swap_s)


def rest_of_stay_s(model: ManagedModel, incoming: ManagedModel, swap_s: float, now: float) -> float:
    """Seconds until nothing keeps a model in memory that `incoming` needs."""
    if model.status != "loaded":
        return 0.0
    if model.is_expected and model.takes_requests:
        due_at = max(incoming.queued_at if incoming.loading else now, model.loaded_at) + swap_s
        return stay_until_return_s(model, now - model.loaded_at, due_at - model.loaded_at)
    return model.running_answers.last_end_s()


def stay_until_return_s(model: ManagedModel, elapsed_s: float, due_s: float) -> float:
    """How much longer it stays for a client that is to return, `elapsed_s` after the load.

    The mean over when clients returned: one answer follows. The model leaves after `due_s` without them.
    """
    answer_s = model.running_answers.durations.mean_s
    return mean(
        answer_s + return_s if elapsed_s + return_s < due_s else max(0.0, due_s - elapsed_s)
        for return_s in model.returns.likely_s(elapsed_s)
    )


def share_example(model: ManagedModel, models: Iterable[ManagedModel]) -> None:
    """The load of one model is the best guess for those that have not been loaded yet."""
    for each in models:
        if not each.loads.has_run:
            each.loads.example = model.loads.example
