"""The records of a step, on their way to those who wait for them: gathered, then handed out in one call.

Knows outlets and records; not what they mean.
"""

import logging
from collections.abc import Callable
from collections.abc import Sequence as Several
from functools import partial

from inference.engine.sequence import Outlet, Record

log = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], None]


class Outbox:
    """`post` is called with one callback a step, and calls it on the thread that delivers."""

    def __init__(self) -> None:
        self.post: Post = at_once
        self._records: list[tuple[Outlet, Record]] = []

    def add(self, outlet: Outlet, record: Record) -> None:
        self._records.append((outlet, record))

    def send(self) -> None:
        """Hand out what has gathered. Where nobody takes it any more (a closed event loop), it is lost."""
        if not self._records:
            return
        records, self._records = self._records, []
        try:
            self.post(partial(deliver, records))
        except RuntimeError:
            log.exception("records lost count=%d", len(records))


def deliver(records: Several[tuple[Outlet, Record]]) -> None:
    """Give each outlet its record; one that fails takes nothing from the others."""
    for outlet, record in records:
        try:
            outlet.put(record)
        except Exception:
            log.exception("outlet failed")


def at_once(callback: Callable[[], None]) -> None:
    callback()
