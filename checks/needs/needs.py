"""How many bytes a plan takes on each device that holds a part of the model, and how many there are.

On the CPU everything is in RAM. On a GPU the weights pass through RAM a file at a time, and stay on the GPU.
Knows a Plan, its terms and a Machine; judges nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checks.machine import Machine
from checks.measure import Measure
from checks.needs.terms import Terms, terms
from checks.plan import Plan
from inference.model.place import kv_bytes

LEAST = 2048  # tokens of context below which a model is not worth starting


@dataclass(frozen=True, slots=True)
class Part:
    """What of the model is on one device: bytes of weights, and a share (0 to 1) of what sequences keep."""

    device: str
    weights: int
    kv: float

    @property
    def name(self) -> str:
        """RAM, GPU, GPU 1."""
        kind, _, number = self.device.partition(":")
        return "RAM" if kind == "cpu" else f"GPU {number}".rstrip()


def parts(plan: Plan, measure: Measure) -> tuple[Part, ...]:
    """The parts of the model, that of the first layers first. All that is no layer belongs to it.

    What sequences keep is shared evenly by the decoder's layers: they are alike, or kinds alternate.
    """
    if not plan.places:
        return (Part(plan.device, measure.weights - measure.saves.get(plan.quantise, 0), 1.0),)
    layers = list(zip(plan.places, weights_of(measure, len(plan.places)), strict=True))
    keeping = plan.places[measure.encoder :]
    rest = measure.weights - sum(weights for _, weights in layers)
    return tuple(
        Part(
            device,
            sum(weights for place, weights in layers if place == device) + rest * (device == plan.places[0]),
            keeping.count(device) / len(keeping),
        )
        for device in dict.fromkeys(plan.places)
    )


def weights_of(measure: Measure, count: int) -> tuple[int, ...]:
    """Bytes of each layer; an even share of them all where the model could not be asked."""
    return measure.layers or (measure.weights // count,) * count


def needed(plan: Plan, measure: Measure, part: Part) -> int:
    """Bytes on the part's device: weights, the programs that come along, and tokens of a first answer."""
    return least_terms(plan, measure, part).most


def least_terms(plan: Plan, measure: Measure, part: Part) -> Terms:
    """Of the part's device, with the tokens of a first answer."""
    return terms_of(plan, measure, part, plan.kv or least_kv(plan, measure))


def terms_of(plan: Plan, measure: Measure, part: Part, kv: int) -> Terms:
    """Of the part's device, where sequences keep so many bytes on all devices together."""
    return terms(plan, measure, part.device, part.weights, int(kv * part.kv))


def least_kv(plan: Plan, measure: Measure) -> int:
    return measure.row + measure.token * min(plan.context or plan.longest, LEAST)


def there(plan: Plan, machine: Machine, device: str) -> int:
    """Bytes of a device that each process which has a part of the model can have."""
    if device == "cpu":
        return (machine.ram + plan.overhead.own) // plan.shards
    _, _, number = device.partition(":")
    gpus = machine.gpus[int(number) :][:1] if number else machine.gpus[: plan.shards]
    return min((gpu.free for gpu in gpus), default=0)


def room(plan: Plan, machine: Machine, measure: Measure) -> int:
    """Bytes for the tokens of running answers, on all devices together: where one is full, all are."""
    return min(rooms(plan, machine, measure))


def rooms(plan: Plan, machine: Machine, measure: Measure) -> Iterator[int]:
    for part in parts(plan, measure):
        left = max(0, there(plan, machine, part.device) - terms_of(plan, measure, part, 0).fixed)
        if part.kv:
            yield int(kv_bytes(left, "cpu" if part.device == "cpu" else "cuda", None) / part.kv)


def fitting(plan: Plan, machine: Machine, measure: Measure) -> int:
    """Tokens of one sequence that the memory holds; the model's own length where they cost nothing."""
    longest = max(plan.context, plan.longest)
    if not measure.token:
        return longest
    return min(longest, ((plan.kv or room(plan, machine, measure)) - measure.row) // measure.token)
