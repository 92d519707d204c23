"""What rank 0 tells the other ranks, and what they answer: plain values, sent through a pipe.

A rank obeys one order after the other; the tensors that go between ranks meanwhile are torch.distributed's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from inference.model.batch import Batch


@dataclass(frozen=True, slots=True)
class Forward:
    """Compute a step of the engine."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a piece of work, "embed", "search" or "hold", to be known as `id`."""

    id: int
    kind: str
    given: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """Do the next step of a piece of work."""

    id: int


@dataclass(frozen=True, slots=True)
class Edited:
    """Logits (1, V) that rank 0 has edited, float32, in the midst of a step; None: it cannot go on."""

    logits: numpy.ndarray | None


@dataclass(frozen=True, slots=True)
class End:
    """The piece of work is over."""

    id: int


@dataclass(frozen=True, slots=True)
class Resume:
    """All ranks have failed alike: go on with the next order."""


Order = Forward | Begin | Step | Edited | End | Resume


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded; `seat` is what must be the same on every rank."""

    seat: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The order failed, or the start did."""

    told: str


Answer = Ready | Failed
