"""The memory of every GPU while a request ran, from samples taken on its way.

Knows a Backend's figures. What lies between two samples is not seen.
"""

import time
from collections.abc import Callable, Sequence

from api.neodim.answers import Gpu
from inference.types import Device

FIGURES = ("reserved", "allocated", "free")
PAUSE_S = 0.05  # the driver is asked no more often, for it takes its time to answer


class Gpus:
    """`read` gives the figures of now; the first sample is taken at once."""

    def __init__(self, read: Callable[[], Sequence[Device]]) -> None:
        self._read = read
        self._devices = read()
        self._start = [figures(device) for device in self._devices]
        self._end = self._low = self._high = self._start
        self._taken = time.monotonic()

    def sample(self, last: bool = False) -> None:
        """Take a sample, unless the latest is too recent; the last is always taken."""
        if not self._devices or (not last and time.monotonic() < self._taken + PAUSE_S):
            return
        self._taken = time.monotonic()
        self._end = [figures(device) for device in self._read()]
        self._low = [each(min, a, b) for a, b in zip(self._low, self._end, strict=True)]
        self._high = [each(max, a, b) for a, b in zip(self._high, self._end, strict=True)]

    def report(self) -> list[Gpu]:
        moments = {"start": self._start, "end": self._end, "min": self._low, "max": self._high}
        return [
            Gpu(
                device.name,
                device.total,
                **{
                    f"memory_{name}_{at}": taken[i][name] for at, taken in moments.items() for name in FIGURES
                },
            )
            for i, device in enumerate(self._devices)
        ]


def figures(device: Device) -> dict[str, int]:
    return {name: getattr(device, name) for name in FIGURES}


def each(choose: Callable[[int, int], int], a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: choose(a[name], b[name]) for name in FIGURES}
