"""The commands that other threads send to the engine's thread: submit, abort, a background task, stop."""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any

from inference.engine.background import BackgroundTask
from inference.engine.sequence import Sequence
from inference.errors import ServerError


@dataclass(frozen=True, slots=True)
class Submit:
    sequences: SequenceOf[Sequence]


@dataclass(frozen=True, slots=True)
class Abort:
    sequence_ids: SequenceOf[int]


@dataclass(frozen=True, slots=True)
class RunBackgroundTask:
    background_task: BackgroundTask[Any]


@dataclass(frozen=True, slots=True)
class Stop:
    error: ServerError


Command = Submit | Abort | RunBackgroundTask | Stop
