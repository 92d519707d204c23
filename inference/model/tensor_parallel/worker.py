"""A rank other than the first, in its own process: it loads its part of the model and executes messages.

It ends when rank 0 closes the pipe or dies. Knows the messages and how to execute each; not their purpose.
"""

import logging
import os
import signal
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import distributed

from inference.model import process_group
from inference.model.batch import Runner
from inference.model.memory_usage import MemoryUsage, measure_memory
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.tensor_parallel.messages import (
    AdvanceTask,
    BeginTask,
    CallbackResult,
    EndTask,
    ForwardStep,
    MeasureMemory,
    ResumeWork,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
)
from inference.model.tensor_parallel.recipe import LoadRecipe

log = logging.getLogger(__name__)

# Seconds that a failed rank waits for ResumeWork, then exits: the other ranks did not fail, and wait for it.
RESYNC_WAIT_S = 10.0


def run_worker(rank: int, port: int, recipe: LoadRecipe, pipe: Connection) -> None:
    """Runs in a rank's process until rank 0 closes the pipe."""
    detach_from_signals()
    try:
        process_group.join_process_group(
            process_group.connect_store(port, recipe.num_shard), rank, recipe.num_shard, recipe.device
        )
        loaded, selected = recipe.load_model()
    except Exception as error:
        log.debug("rank %d cannot start", rank, exc_info=True)
        pipe.send(worker_failure(error))
        return
    pipe.send(WorkerReady(describe_runner(selected)))
    with suppress(EOFError), torch.inference_mode():
        RankWorker(rank, loaded.model, selected, pipe).run()
    process_group.leave_process_group()
    os._exit(0)  # Python would take seconds to clean up what the system frees at once


def detach_from_signals() -> None:
    """Ignore signals, because rank 0 handles them by finishing its requests; exit when rank 0 exits."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()


def end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a rank is started by another process"
    wait([parent.sentinel])
    os._exit(1)  # no process would use its results


def describe_runner(selected: SelectedRunner) -> tuple[Any, ...]:
    runner = selected.runner
    return (
        selected.name,
        runner.capabilities,
        runner.max_sequences,
        runner.context,
        runner.kv_capacity,
        runner.window_groups,
    )


def worker_failure(error: Exception) -> WorkerFailed:
    return WorkerFailed(f"{type(error).__name__}: {error}")


class RankWorker:
    """Executes the messages that arrive through the pipe."""

    def __init__(self, rank: int, model: Any, selected: SelectedRunner, pipe: Connection) -> None:
        self.rank, self.model, self.runner, self.pipe = rank, model, selected.runner, pipe
        self.tasks: dict[int, Generator[Any, None, Any]] = {}

    def run(self) -> None:
        """Execute messages until rank 0 closes the pipe; raises EOFError then."""
        while True:
            message = self.pipe.recv()
            try:
                self.handle(message)
            except EOFError:
                raise
            except Exception as error:
                self.report_failure(error)

    def handle(self, message: WorkerMessage) -> None:
        match message:
            case ForwardStep(batch):
                self.runner.forward(batch)
            case BeginTask(id, function, args, kwargs, callbacks):
                received = dict.fromkeys(callbacks, self.receive_callback_result)
                self.tasks[id] = function(self.model, *args, **kwargs, **received)
            case AdvanceTask(id):
                next(self.tasks[id], None)
            case EndTask(id):
                self.tasks.pop(id).close()
            case MeasureMemory(gpus, reset_peaks):
                gather_memory_usage(self.model, self.runner, gpus, reset_peaks)

    def receive_callback_result(self, argument: torch.Tensor) -> torch.Tensor:
        """Receive what the callback returned on rank 0, whose argument was equal to this one."""
        message = self.pipe.recv()
        assert isinstance(message, CallbackResult), "rank 0 sends a result at this point of a task"
        if message.values is None:
            raise ValueError("the callback failed on rank 0")
        return torch.from_numpy(message.values).to(argument.device)

    def report_failure(self, error: Exception) -> None:
        """Report the error to rank 0; exit unless all ranks failed, because the others would wait forever."""
        self.pipe.send(worker_failure(error))
        if not self.pipe.poll(RESYNC_WAIT_S) or not isinstance(self.pipe.recv(), ResumeWork):
            log.error("rank %d exits: it failed, and another rank did not", self.rank, exc_info=error)
            os._exit(1)


def gather_memory_usage(
    model: Any, runner: Runner, gpus: Sequence[int], reset_peaks: bool
) -> list[MemoryUsage]:
    """The memory usage by rank; all ranks execute this together. With `gpus`, each measures its own GPU."""
    own = measure_memory(model, runner, [torch.cuda.current_device()] if gpus else [], reset_peaks)
    usages: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(usages, own)
    return usages
