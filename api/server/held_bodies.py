"""Bounds the bytes of all request bodies that the server holds, in memory and on disk.

A body is held from its first byte until the app has answered. Used on the event loop only.
"""

from inference.drain_rate import DrainRate, overloaded

MAX_HELD_BYTES = 256 << 20
SMALL_BYTES = 64 << 10  # a body this small is always accepted: large ones do not keep it out


class HeldBodies:
    def __init__(self, max_bytes: int = MAX_HELD_BYTES) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.drain_rate = DrainRate()


class HeldBody:
    """The bytes of one body."""

    def __init__(self, held_bodies: HeldBodies) -> None:
        self.held_bodies = held_bodies
        self.num_bytes = 0

    def add(self, num_bytes: int) -> None:
        """Hold further bytes. Raises Overloaded if all bodies would be too large together."""
        bodies = self.held_bodies
        self.num_bytes += num_bytes
        bodies.num_bytes += num_bytes
        excess, is_alone = bodies.num_bytes - bodies.max_bytes, bodies.num_bytes == self.num_bytes
        if excess > 0 and not is_alone and self.num_bytes > SMALL_BYTES:
            raise overloaded(None, bodies.drain_rate.seconds_for(excess))

    def release(self) -> None:
        """Stop counting the bytes, if they are still counted."""
        self.held_bodies.num_bytes -= self.num_bytes
        self.held_bodies.drain_rate.record(self.num_bytes)
        self.num_bytes = 0
