"""Bounds the bytes of all request bodies that the server holds, in memory and on disk.

A body is held from its first byte until the app has answered. Used on the event loop only.
"""

import time
from statistics import mean

from inference.drain_rate import MIN_RETRY_S, RecentDurations, overloaded

MAX_HELD_BYTES = 256 << 20
MIN_S = 0.001  # the shortest time in which bytes arrive
SMALL_BYTES = 64 << 10  # a body this small is always accepted: large ones do not keep it out


class HeldBodies:
    """large: the bodies over SMALL_BYTES; answer_times: from the last byte of a large body to its release"""

    def __init__(self, max_bytes: int = MAX_HELD_BYTES) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.large: set[HeldBody] = set()
        self.answer_times = RecentDurations()

    def seconds_until_released(self, num_bytes: float, headroom: int) -> float:
        """Seconds until `num_bytes` bytes of large bodies are released. Each is released as a whole.

        headroom  bytes that all bodies may still grow by; then the next one is refused, which releases it
        """
        now = time.monotonic()
        ends = [(body.remaining_s(now), float(body.num_bytes)) for body in self.large]
        arriving = [body for body in self.large if not body.has_arrived]
        if growth := sum(body.bytes_per_s(now) for body in arriving):
            ends.append((headroom / growth, mean(body.num_bytes for body in arriving)))
        for seconds, num_released in sorted(ends):
            num_bytes -= num_released
            if num_bytes <= 0:
                return seconds
        return max((seconds for seconds, _ in ends), default=MIN_RETRY_S)


class HeldBody:
    """The bytes of one body. num_declared: by its Content-Length; 0: unknown"""

    def __init__(self, held_bodies: HeldBodies, num_declared: int = 0) -> None:
        self.held_bodies = held_bodies
        self.num_bytes = 0
        self._num_declared = num_declared
        self._started_at = self._arrived_at = 0.0

    def add(self, num_bytes: int) -> None:
        """Hold further bytes. Raises Overloaded if all bodies would be too large together."""
        bodies = self.held_bodies
        self.num_bytes += num_bytes
        bodies.num_bytes += num_bytes
        if self.num_bytes <= SMALL_BYTES:
            return
        excess, is_alone = bodies.num_bytes - bodies.max_bytes, bodies.num_bytes == self.num_bytes
        if excess > 0 and not is_alone:
            bodies.large.discard(self)
            num_missing, headroom = max(0, self._num_declared - self.num_bytes), self.num_bytes - excess
            raise overloaded(None, bodies.seconds_until_released(excess + num_missing, max(0, headroom)))
        self._note_progress()

    def _note_progress(self) -> None:
        now = time.monotonic()
        self._started_at = self._started_at or now
        if self.num_bytes == self._num_declared:
            self._arrived_at = now
        self.held_bodies.large.add(self)

    @property
    def has_arrived(self) -> bool:
        return self._arrived_at > 0

    def bytes_per_s(self, now: float) -> float:
        """The rate at which it has arrived."""
        return self.num_bytes / max(MIN_S, now - self._started_at)

    def remaining_s(self, now: float) -> float:
        """Seconds until the app has answered: the rest of the body arrives as fast as it did until now."""
        if self.has_arrived:
            return mean(self.held_bodies.answer_times.likely_s(now - self._arrived_at))
        if self._num_declared < self.num_bytes:  # its length is unknown: it takes as long again
            return now - self._started_at
        num_missing = self._num_declared - self.num_bytes
        return num_missing / self.bytes_per_s(now) + self.held_bodies.answer_times.mean_s

    def release(self) -> None:
        """Stop counting the bytes, if they are still counted."""
        self.held_bodies.num_bytes -= self.num_bytes
        self.num_bytes = 0
        if self in self.held_bodies.large:
            self.held_bodies.large.remove(self)
            if self.has_arrived:
                self.held_bodies.answer_times.record(time.monotonic() - self._arrived_at)
