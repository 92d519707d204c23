"""What a stopped server keeps of its queues: requests that have not begun, and results not yet forgotten.

One file of messages, written at the stop, and read and removed at the next start.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import MsgspecError
from safetensors import SafetensorError

from inference.errors import named_error
from inference.struct_types import ready
from tuning.runs.run_queue import RunQueue
from tuning.runs.types import (
    CreateRun,
    Failure,
    ForwardBackward,
    LoadWeights,
    OptimStep,
    PassOutput,
    RejectedRequest,
    RunCreated,
    SaveForSampler,
    SaveWeights,
    StepOutcome,
    WeightsLoaded,
    WeightsSaved,
)
from tuning.trainer.messages import (
    Arrays,
    TrainerMessage,
    arrays_to_data,
    data_to_arrays,
    read_message,
    write_message,
)

REQUESTS = (CreateRun, ForwardBackward, OptimStep, SaveWeights, SaveForSampler, LoadWeights, RejectedRequest)
RESULTS = (RunCreated, PassOutput, StepOutcome, WeightsSaved, WeightsLoaded, Failure)
TYPES: Mapping[str, type] = {each.__name__: each for each in (*REQUESTS, *RESULTS)}
DAMAGED = (ValueError, LookupError, TypeError, OverflowError, MemoryError, MsgspecError, SafetensorError)
ARRAY_FIELDS = ("data", "logprobs")  # of ForwardBackward and PassOutput

log = logging.getLogger(__name__)


class SavedValue(NamedTuple):
    """An item of a queue in the file.

    value: a request that has not begun, or the result of one.
    """

    run_id: str
    seq_id: int
    value: Any


def save_queues(file: Path, queues: Iterable[RunQueue]) -> None:
    new = file.with_suffix(".new")
    with new.open("wb") as stream:
        for saved in values_of(queues):
            value = saved.value
            header = {"run": saved.run_id, "seq_id": saved.seq_id, "type": type(value).__name__}
            write_message(stream, header | {"fields": plain_fields(value)}, arrays_of(value))
    new.replace(file)


def restore_queues(file: Path, queues: dict[str, RunQueue]) -> None:
    """Give the queues what save_queues wrote, and remove the file: a later kill must not see it again.

    What follows a damaged place, as a power cut leaves one, is lost, and the log says so.
    """
    if not file.exists():
        return
    try:
        with file.open("rb") as stream:
            while message := read_message(stream):
                restore(to_value(message), queues)
    except DAMAGED as error:
        log.warning("%s is damaged, requests and results after a stop are lost: %s", file, named_error(error))
    file.unlink()


def restore(saved: SavedValue, queues: dict[str, RunQueue]) -> None:
    is_new = isinstance(saved.value, CreateRun)
    run_queue = queues.setdefault(saved.run_id, RunQueue(saved.run_id, next_seq_id=0 if is_new else 1))
    match saved.value:
        case RejectedRequest(category="server", message=message):
            run_queue.add_lost(saved.seq_id, message)
        case value if isinstance(value, REQUESTS):
            run_queue.add(saved.seq_id, value)
        case result:
            run_queue.resolve(saved.seq_id, run_queue.promise(saved.seq_id), result)


def values_of(queues: Iterable[RunQueue]) -> Iterator[SavedValue]:
    for run_queue in queues:
        for seq_id, promise in run_queue.promises.items():
            waiting = run_queue.waiting.get(seq_id)
            value = waiting.request if waiting else promise.result()
            if value is not None:
                yield SavedValue(run_queue.run_id, seq_id, value)


def plain_fields(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(value) if field.name not in ARRAY_FIELDS]
    return {name: msgspec.to_builtins(getattr(value, name)) for name in names}


def arrays_of(value: Any) -> Arrays:
    match value:
        case ForwardBackward():
            return data_to_arrays(value.data)
        case PassOutput():
            return {str(index): values for index, values in enumerate(value.logprobs)}
    return {}


def to_value(message: TrainerMessage) -> SavedValue:
    header, arrays = message
    cls, fields = TYPES[header["type"]], header["fields"]
    if cls is ForwardBackward:
        value: Any = ForwardBackward(data=arrays_to_data(arrays), **fields)
    elif cls is PassOutput:
        value = PassOutput(logprobs=[arrays[str(index)] for index in range(len(arrays))], **fields)
    else:
        value = msgspec.convert(fields, ready(cls))
    return SavedValue(header["run"], header["seq_id"], value)
