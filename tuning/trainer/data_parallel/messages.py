"""What rank 0 and the other processes of data parallelism send each other.

Pickled, as both ends are this program. Knows the trainer's types; not how they travel.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from inference.errors import Internal, named_error
from inference.process.memory.memory_shortage import is_memory_shortage
from tuning.trainer.whole_passes import PassInterrupted
from tuning.types import JobSpec, TrainingBase

Failure = Literal["interrupted", "memory", "other"]
ERRORS: Mapping[Failure, Callable[[str], Exception]] = {
    "interrupted": PassInterrupted,
    "memory": MemoryError,
    "other": Internal,
}


@dataclass(frozen=True, slots=True)
class ReplicaSetup:
    """The trainer that every process has.

    quantize       as in load_base
    checkpointing  and scores_masked: as in Trainer
    """

    spec: JobSpec | TrainingBase
    quantize: str
    checkpointing: bool
    scores_masked: bool


class Call(NamedTuple):
    """A verb with its arguments; the reply is its result, or a ReplicaFailure."""

    verb: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    kind: Failure
    message: str


def to_reply(error: Exception) -> ReplicaFailure:
    """An error as it travels: not every class of errors can be pickled."""
    if isinstance(error, PassInterrupted):
        return ReplicaFailure("interrupted", "")
    kind: Failure = "memory" if is_memory_shortage(error) else "other"
    return ReplicaFailure(kind, named_error(error))


def raise_failures(replies: Iterable[Any]) -> None:
    """Raise the first failure among the replies."""
    for reply in replies:
        if isinstance(reply, ReplicaFailure):
            raise ERRORS[reply.kind](reply.message)
