"""Rank 0's part: starts the other ranks, sends them messages, and detects when one of them exits.

Knows processes, pipes and messages; not what is computed.
"""

import atexit
import logging
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from inference.errors import ServerError, Unavailable
from inference.model import process_group
from inference.model.load.loader import LoadedModel
from inference.model.runner_selection.select_runner import SelectedRunner
from inference.model.tensor_parallel.messages import (
    ResumeWork,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
    WorkerReply,
)
from inference.model.tensor_parallel.rank_start import run_rank
from inference.model.tensor_parallel.recipe import LoadRecipe
from inference.model.tensor_parallel.worker import describe_runner, run_worker, worker_failure

log = logging.getLogger(__name__)

READY_S = 60.0  # for the other ranks to be ready, after rank 0 is
RESYNC_S = 5.0  # for the other ranks to fail too, after rank 0 failed
REPORT_S = 1.0  # for a failing rank to report why
CLOSING_S = 5.0  # for the other ranks to exit by themselves


class RankProcesses:
    """The other ranks, each in its own process. Only one thread may send messages; any may call `close`.

    lost  why the ranks can no longer compute; empty while they can
    """

    def __init__(self, recipe: LoadRecipe) -> None:
        self.recipe = recipe
        self.lost = ""
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        self._on_lost: Callable[[str], None] = lambda reason: None
        self._closing = False
        self._lock = threading.Lock()
        self._lost_event = threading.Event()
        self._store = process_group.create_store(recipe.num_shard)
        atexit.register(self.close)  # runs before multiprocessing joins its children

    def start(self) -> tuple[LoadedModel, SelectedRunner]:
        """Start the other ranks and load the model on all. Raises ServerError after ending all processes."""
        recipe = self.recipe
        try:
            for rank in range(1, recipe.num_shard):
                self._start_rank(rank)
            threading.Thread(target=self._watch, name="ranks", daemon=True).start()
            process_group.join_process_group(self._store, 0, recipe.num_shard, recipe.device)
            loaded, selected = recipe.load_model()
            self._check(describe_runner(selected))
        except BaseException as error:
            failure = self._failure(error) if isinstance(error, Exception) else ""
            self.close()
            if failure:
                raise Unavailable(failure) from error
            raise
        log.info("ranks=%d device=%s", recipe.num_shard, recipe.device)
        return loaded, selected

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the reason, from any thread, once the ranks can no longer compute."""
        self._on_lost = callback
        if self.lost:
            callback(self.lost)

    def send(self, message: WorkerMessage) -> None:
        """Send the message to every other rank. Raises Unavailable once one is lost."""
        for rank, pipe in enumerate(self.pipes, 1):
            try:
                pipe.send(message)
            except OSError:
                self._mark_lost(f"rank {rank} no longer receives messages")
        if self.lost:
            raise Unavailable(self.lost)

    def resync(self) -> None:
        """Continue after a failure of rank 0 if all other ranks failed too.

        Raises Unavailable if one did not: it waits for rank 0 in a collective.
        """
        for rank, pipe in enumerate(self.pipes, 1):
            if not (pipe.poll(RESYNC_S) and receive_reply(pipe)):
                self._mark_lost(f"rank 0 failed, and rank {rank} did not")
                raise Unavailable(self.lost)
        self.send(ResumeWork())

    def close(self) -> None:
        """End the other ranks; those that do not exit within CLOSING_S are killed. Idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(0 if self.lost else CLOSING_S)
            process.kill()
            process.join()
        process_group.leave_process_group()
        atexit.unregister(self.close)

    def _start_rank(self, rank: int) -> None:
        """Start a rank in a new process, not in a fork: a fork of this process would lack its threads."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        worker = pickle.dumps(partial(run_worker, rank, self._store.port, self.recipe))
        process = context.Process(target=run_rank, args=(worker, theirs), name=f"rank {rank}", daemon=True)
        process.start()
        theirs.close()
        self.processes.append(process)
        self.pipes.append(ours)

    def _check(self, description: tuple[object, ...]) -> None:
        """Raise Unavailable unless every other rank is ready and has the same runner as rank 0."""
        for rank, pipe in enumerate(self.pipes, 1):
            reply = receive_reply(pipe) if pipe.poll(READY_S) else None
            if reply is None:
                raise Unavailable(f"rank {rank} was not ready {READY_S:.0f} s after rank 0")
            if reply != WorkerReady(description):
                raise Unavailable(f"rank {rank} differs from rank 0, whose runner is {description}: {reply}")

    def _failure(self, error: Exception) -> str:
        """Why another rank did not start; empty if all did, or if they failed with rank 0's ServerError."""
        is_shared = False
        for rank, pipe in enumerate(self.pipes, 1):
            reply = receive_reply(pipe) if pipe.poll(REPORT_S) else None
            if isinstance(error, ServerError) and reply == worker_failure(error):
                is_shared = True
            elif isinstance(reply, WorkerFailed):
                return f"rank {rank} cannot start: {reply.message}"
        return "" if is_shared else self.lost

    def _watch(self) -> None:
        """Wait until a rank exits, and report it unless `close` ended it. Runs in a thread of its own."""
        exited = wait([process.sentinel for process in self.processes])
        rank, process = next(
            (rank, process) for rank, process in enumerate(self.processes, 1) if process.sentinel in exited
        )
        with self._lock:
            if self._closing:
                return
            process.join(REPORT_S)
        self._mark_lost(f"rank {rank} has ended with exit code {process.exitcode}", certain=True)

    def _mark_lost(self, why: str, certain: bool = False) -> None:
        """Record the first reason. An uncertain reason waits REPORT_S, in case `_watch` has a better one."""
        if not certain and self._lost_event.wait(REPORT_S):
            return
        with self._lock:
            if self._closing or self.lost:
                return
            self.lost = f"{why}: the server must be restarted"
        log.error("%s", self.lost)
        self._on_lost(self.lost)
        self._lost_event.set()


def receive_reply(pipe: Connection) -> WorkerReply | None:
    """Receive a reply from a pipe; None if the pipe was closed."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None
