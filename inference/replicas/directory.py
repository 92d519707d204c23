"""The list of the replicas that run: each renews its entry, as a lease. An actor of Ray holds it.

Knows addresses and times only: one call at a time, from the replicas and from the server in front of them.
"""

import time
from collections.abc import Callable

RENEW_INTERVAL_S = 1.0
LEASE_S = 10.0  # without a renewal, until a replica counts as lost
LOST_KEPT_S = 60.0  # for the server in front, which asks each second


class ReplicaDirectory:
    """The addresses of replicas. clock: in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lease_ends: dict[str, float] = {}

    def renew(self, url: str) -> None:
        """List the replica for another LEASE_S."""
        self._lease_ends[url] = self._clock() + LEASE_S

    def leave(self, url: str) -> None:
        """The replica takes no new requests. Its running answers go on."""
        self._lease_ends.pop(url, None)

    def list_urls(self) -> tuple[list[str], list[str]]:
        """The replicas that take requests, and those that were lost lately: killed, or unreachable."""
        now = self._clock()
        self._lease_ends = {url: end for url, end in self._lease_ends.items() if now < end + LOST_KEPT_S}
        live = [url for url, end in self._lease_ends.items() if now < end]
        return live, [url for url in self._lease_ends if url not in live]
