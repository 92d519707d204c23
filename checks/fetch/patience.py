"""How often a thing is tried, and how long we wait in between. Knows nothing of what is tried."""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from checks.fetch.line import Fault, Signals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """`tries` in a row that nothing came in are enough; waits double from `first_s` to `longest_s`."""

    tries: int = 10
    first_s: float = 0.5
    longest_s: float = 30.0

    def delay(self, failures: int) -> float:
        """Between half and all of the wait, by chance: what failed together does not come back together."""
        return min(self.first_s * 2 ** (failures - 1), self.longest_s) * random.uniform(0.5, 1)


def persist(
    attempt: Callable[[], None], position: Callable[[], int], patience: Patience, signals: Signals
) -> None:
    """Try until it is done. Raises the last Fault when patience ends.

    Every byte renews it, and so does one that another thread gets meanwhile: a server that has had enough of
    our connections still answers some of them.
    """
    failures, begun = 0, math.inf
    while True:
        before = position()
        try:
            return attempt()
        except Fault as fault:
            failures = 1 if position() > before else failures + 1
            if failures >= patience.tries:
                if signals.heard <= begun:
                    raise
                failures = 1
            if failures == 1:
                begun = time.monotonic()
            log.debug("try=%d position=%d fault=%s", failures, position(), fault)
            signals.trouble = str(fault)
            signals.wait(patience.delay(failures))
