"""A loaded adapter, as lists of models show it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdapterCard:
    """A loaded adapter.

    source   the path or Hub id as the client sent it
    number   of this load; never used twice
    rank     the largest rank of its modules
    nbytes   of its weights in memory, in all processes together
    created  Unix time of the load
    """

    name: str
    source: str
    number: int
    rank: int
    nbytes: int
    created: int
