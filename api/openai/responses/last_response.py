"""The last response of a WebSocket, if it is not stored: the connection's next message can continue it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from api.store.tables import StoredItem

MAX_BYTES = 64 << 20  # of the JSON of all connections: then the oldest responses are forgotten


@dataclass(slots=True, weakref_slot=True)
class LastResponse:
    """items: all items up to the end of the response, its output included; none: they were forgotten"""

    id: str
    items: Sequence[StoredItem]
    num_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_bytes = sum(len(item.value) for item in self.items)


class LastResponses:
    """Those of all connections that are open, each of which owns its own."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._by_id: WeakValueDictionary[str, LastResponse] = WeakValueDictionary()

    def add(self, response: LastResponse) -> None:
        self._by_id[response.id] = response
        responses = list(self._by_id.values())  # the oldest first
        excess = sum(each.num_bytes for each in responses) - self.max_bytes
        for each in responses:
            if excess <= 0:
                break
            excess -= each.num_bytes
            each.items, each.num_bytes = (), 0
