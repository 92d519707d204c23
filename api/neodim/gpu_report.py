"""Samples the memory of every GPU while a request runs, in bytes.

Knows Device, the backend's memory figures. A peak between two samples is missed.
"""

import time
from collections.abc import Callable, Sequence

from api.neodim.protocol import GpuReport
from inference.backend_info import Device

FIGURES = ("reserved", "allocated", "free")
MIN_INTERVAL_S = 1.0  # between two queries of the GPU driver: a slow query delays the streams of all requests


class GpuSampler:
    """The constructor takes the first sample. `read` returns the current figures of every GPU."""

    def __init__(self, read: Callable[[], Sequence[Device]]) -> None:
        self._read = read
        self._devices = read()
        self._start = [memory_figures(device) for device in self._devices]
        self._end = self._low = self._high = self._start
        self._sampled_at = time.monotonic()

    def sample(self, last: bool = False) -> None:
        """Take a sample if MIN_INTERVAL_S has passed since the latest one, or if it is the `last`."""
        if not self._devices or (not last and time.monotonic() < self._sampled_at + MIN_INTERVAL_S):
            return
        self._sampled_at = time.monotonic()
        self._end = [memory_figures(device) for device in self._read()]
        self._low = [combine(min, a, b) for a, b in zip(self._low, self._end, strict=True)]
        self._high = [combine(max, a, b) for a, b in zip(self._high, self._end, strict=True)]

    def report(self) -> list[GpuReport]:
        moments = {"start": self._start, "end": self._end, "min": self._low, "max": self._high}
        return [
            GpuReport(
                device.name,
                device.total,
                **{
                    f"memory_{name}_{at}": samples[i][name]
                    for at, samples in moments.items()
                    for name in FIGURES
                },
            )
            for i, device in enumerate(self._devices)
        ]


def memory_figures(device: Device) -> dict[str, int]:
    return {name: getattr(device, name) for name in FIGURES}


def combine(choose: Callable[[int, int], int], a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: choose(a[name], b[name]) for name in FIGURES}
