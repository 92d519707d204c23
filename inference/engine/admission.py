"""When waiting sequences may join the running ones: at once, or once enough of them wait.

Each that joins holds the running ones up by its prompt; waiting for company holds them up less often. Knows
counts only; the scheduler obeys.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Admission:
    """Waiting ones join when there are `ratio` of them for each running one, or none has joined for
    `patience` steps. The defaults let them join at once.

    since  steps since the last one joined
    """

    ratio: float = 0.0
    patience: int = 0
    since: int = 0

    def opens(self, waiting: int, running: int) -> bool:
        """Whether waiting ones may join in this step; asked once a step."""
        self.since += 1
        return not running or self.since >= self.patience or waiting >= int(self.ratio * running)

    def joined(self) -> None:
        self.since = 0
