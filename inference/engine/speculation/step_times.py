"""How long steps with drafts take: the estimate of acceptance.py, corrected by what was measured."""

from inference.engine.speculation.acceptance import step_duration

TIME_RATE = 1 / 8  # weight of the latest step
MAX_RATIO = 2.0  # by which one step may exceed the average: more is a pause of something else


class StepTimes:
    """The times of the large model's steps.

    Times are kept for each number of drafts, over the estimate for its rows.
    """

    def __init__(self) -> None:
        self._units: dict[int, float] = {}  # in the order of the latest measurements

    def record(self, num_drafts: int, num_rows: int, seconds: float) -> None:
        unit = seconds / step_duration(num_drafts, num_rows)
        self._units[num_drafts] = typical_time(self._units.pop(num_drafts, None), unit)

    def estimate(self, num_drafts: int, num_rows: int) -> float | None:
        """Seconds of a step, by the nearest number of drafts that was measured; None before the first."""
        if not self._units:
            return None
        nearest = min(self._units, key=lambda measured: abs(measured - num_drafts))
        return step_duration(num_drafts, num_rows) * self._units[nearest]

    def least_known(self, max_drafts: int) -> int:
        """The number of drafts that was never measured, or longest ago."""
        unknown = [num_drafts for num_drafts in range(max_drafts + 1) if num_drafts not in self._units]
        return next(num_drafts for num_drafts in (*unknown, *self._units) if num_drafts <= max_drafts)


def typical_time(average: float | None, seconds: float) -> float:
    """The moving average of times, of which single long ones count little."""
    if average is None:
        return seconds
    return average + TIME_RATE * (min(seconds, MAX_RATIO * average) - average)
