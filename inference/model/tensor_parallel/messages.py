"""Messages from rank 0 to the other ranks, and their replies: plain values, sent through a pipe.

A rank executes one message after the other; its tensors go to other ranks by torch.distributed.
"""

from collections.abc import Mapping
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

    kind          "embed", "search" or "measure_memory"
    args, kwargs  arguments of its function
    """

    id: int
    kind: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdvanceTask:
    """Execute the next step of a task."""

    id: int


@dataclass(frozen=True, slots=True)
class EditedLogits:
    """Logits (1, V), float32, that rank 0 edited within a step of a search; None: editing failed."""

    logits: numpy.ndarray | None


@dataclass(frozen=True, slots=True)
class EndTask:
    """Close a task."""

    id: int


@dataclass(frozen=True, slots=True)
class ResumeWork:
    """All ranks failed in the same message: continue with the next one."""


WorkerMessage = ForwardStep | BeginTask | AdvanceTask | EditedLogits | EndTask | ResumeWork


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The model is loaded; `description` is what must be equal on every rank."""

    description: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A message failed, or the start did; `message` says why."""

    message: str


WorkerReply = WorkerReady | WorkerFailed
