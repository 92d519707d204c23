"""Messages from rank 0 to the other ranks, and their replies: plain values, sent through a pipe.

A rank executes one message after the other; its tensors go to other ranks by torch.distributed.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from inference.model.batch import Batch


@dataclass(frozen=True, slots=True)
class ForwardStep:
    """Compute one step of the engine."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class BeginTask:
    """Begin the task `id`.

    function      a generator function of a module; its first argument is the rank's model
    args, kwargs  its other arguments
    callbacks     the names of arguments that are functions: rank 0 calls them, and sends a CallbackResult
    """

    id: int
    function: Callable[..., Generator[Any, None, Any]]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    callbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdvanceTask:
    """Execute the next step of a task."""

    id: int


@dataclass(frozen=True, slots=True)
class CallbackResult:
    """The tensor that a callback returned on rank 0 within a step of a task; None: it failed."""

    values: numpy.ndarray | None


@dataclass(frozen=True, slots=True)
class EndTask:
    """Close a task."""

    id: int


@dataclass(frozen=True, slots=True)
class MeasureMemory:
    """Measure the memory of each rank, together. See worker.gather_memory_usage."""

    gpus: tuple[int, ...]
    reset_peaks: bool


@dataclass(frozen=True, slots=True)
class ResumeWork:
    """All ranks failed in the same message: continue with the next one."""


WorkerMessage = ForwardStep | BeginTask | AdvanceTask | CallbackResult | EndTask | MeasureMemory | ResumeWork


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The model is loaded; `description` is what must be equal on every rank."""

    description: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A message failed, or the start did; `message` says why."""

    message: str


WorkerReply = WorkerReady | WorkerFailed
