"""REPLICAS: the servers that answer for the one model: how many a Ray cluster runs, or where they are.

Knows the syntax only; settings/inference_server.py knows that of a server.
"""

import re
from dataclasses import dataclass, field
from typing import Any

COUNT = re.compile(r"(\d+)(?:\.\.(\d+))?")
NO_SERVER = re.compile(r"[^:]*")  # a server has a port, or a kind in front of its address


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """The replicas of MODEL_NAME. It is false if there are none: this server runs the model itself.

    low, high  how many a Ray cluster runs, at least and at most; 0: none
    servers    where they run instead, in the forms of INFERENCE_SERVER
    """

    low: int = 0
    high: int = 0
    servers: tuple[str, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.high or self.servers)

    @property
    def is_fixed(self) -> bool:
        """Whether their number does not follow the load."""
        return self.low == self.high


def parse_replicas(value: Any) -> ReplicaSpec:
    """ "4", "2..8", or servers separated by commas. Raises ValueError."""
    if isinstance(value, ReplicaSpec):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    text = str(value).replace(" ", "")
    if match := COUNT.fullmatch(text):
        low, high = int(match[1]), int(match[2] or match[1])
        if not 1 <= low <= high:
            raise ValueError
        return ReplicaSpec(low, high)
    servers = tuple(filter(None, text.split(",")))
    if any(NO_SERVER.fullmatch(server) for server in servers):
        raise ValueError
    return ReplicaSpec(servers=servers)
