"""Rank 0's part: starts the other processes, calls their verbs, and notices when one of them ends.

They are in the process group of this process and die with it. Knows processes and messages; not what is
computed.
"""

import atexit
import contextlib
import logging
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedRWPair
from typing import Any

from inference.errors import Internal
from inference.model import process_group
from inference.model.load.device_dtype import resolve_device
from inference.process.child_program import ChildProgram, describe_exit, module_command
from tuning.trainer.data_parallel.messages import Call, ReplicaSetup, raise_failures

PROGRAM = module_command("tuning.trainer.data_parallel.replica")
EXIT_S = 5.0  # for the others to end by themselves; after the death of one, for this process to say so

log = logging.getLogger(__name__)


class ReplicaDied(Internal):
    """A process of the training has ended; what is left cannot go on."""


@dataclass(frozen=True, slots=True)
class Replica:
    """Another process, and the socket to it."""

    rank: int
    process: ChildProgram
    stream: BufferedRWPair

    def send(self, message: Any) -> None:
        pickle.dump(message, self.stream)
        self.stream.flush()

    def receive(self) -> Any:
        return pickle.load(self.stream)  # from our own program


class ReplicaGroup:
    """Ranks 1 to num_processes - 1, each with a trainer as `setup` says. Call it from one thread.

    A call raises ReplicaDied if one of them has ended.
    """

    def __init__(self, setup: ReplicaSetup) -> None:
        self._is_closing = False
        self.num_processes = setup.spec.num_processes
        self._store = process_group.create_store(self.num_processes)
        self._replicas = [start_replica(rank) for rank in range(1, self.num_processes)]
        atexit.register(self.close)
        for replica in self._replicas:
            threading.Thread(target=self._watch, args=(replica,), daemon=True).start()
        try:
            self._join(setup)
        except BaseException:
            self.close()
            raise

    def call(self, verb: str, *arguments: Any) -> None:
        """Have all others run a verb. Raises what one of them raised, once all have replied."""
        raise_failures(self.replies(self.send(verb, [arguments] * len(self._replicas))))

    def collective(self, verb: str, run_id: str, own_part: Callable[[], None]) -> None:
        """Have the others run a verb that waits for this process, and run this process's part of it."""
        self.send(verb, [(run_id,)] * len(self._replicas))
        with self.watching():
            own_part()

    def send(self, verb: str, arguments: Iterable[tuple[Any, ...] | None]) -> list[Replica]:
        """Have the others run a verb, each with its own arguments; None: not this one. Returns those."""
        pairs = zip(self._replicas, arguments, strict=True)
        calls = [(replica, Call(verb, values)) for replica, values in pairs if values is not None]
        with self.watching():
            for replica, call in calls:
                replica.send(call)
        return [replica for replica, _ in calls]

    def replies(self, replicas: Sequence[Replica]) -> list[Any]:
        """Wait for the results of these: what their verbs returned, or a ReplicaFailure."""
        with self.watching():
            return [replica.receive() for replica in replicas]

    def interrupt(self) -> None:
        """Let the passes that the others compute raise PassInterrupted."""
        for replica in self._replicas:
            replica.process.send_signal(signal.SIGUSR1)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Within the block, an error that comes from the death of another process is a ReplicaDied."""
        try:
            yield
        except (EOFError, OSError, RuntimeError, pickle.UnpicklingError) as error:
            if dead := self._find_dead():
                raise ReplicaDied(death_of(dead, self.num_processes)) from error
            raise

    def close(self) -> None:
        """End the others. Idempotent."""
        if self._is_closing:
            return
        self._is_closing = True
        atexit.unregister(self.close)
        for replica in self._replicas:
            with contextlib.suppress(OSError):
                replica.stream.close()
        for replica in self._replicas:
            with contextlib.suppress(subprocess.TimeoutExpired):
                replica.process.wait(EXIT_S)
            replica.process.kill()
            replica.process.wait()
        process_group.leave_process_group()

    def _join(self, setup: ReplicaSetup) -> None:
        """Wait until the others have loaded the model, and make this process and them one group."""
        with self.watching():
            for replica in self._replicas:
                replica.send((replica.rank, self._store.port, setup))
        raise_failures(self.replies(self._replicas))
        device = resolve_device(setup.spec.device)
        process_group.join_process_group(self._store, 0, self.num_processes, device)

    def _find_dead(self) -> Replica | None:
        """One that has ended, or ends within EXIT_S."""
        deadline = time.monotonic() + EXIT_S
        while time.monotonic() < deadline:
            for replica in self._replicas:
                if replica.process.poll() is not None:
                    return replica
            time.sleep(0.02)
        return None

    def _watch(self, replica: Replica) -> None:
        """End this process soon after that one: a collective of GPUs would wait for it for minutes."""
        replica.process.wait()
        time.sleep(EXIT_S)
        if not self._is_closing:
            log.error("%s", death_of(replica, self.num_processes))
            os._exit(1)


def start_replica(rank: int) -> Replica:
    own, other = socket.socketpair()
    with other:
        process = ChildProgram(PROGRAM, leads_group=False, connection=other)
    with own:
        return Replica(rank, process, own.makefile("rwb"))


def death_of(replica: Replica, num_processes: int) -> str:
    reason = describe_exit(replica.process.returncode)
    return (
        f"process {replica.rank + 1} of {num_processes} died: {reason}: if memory was short, use a smaller "
        "batch_size or max_length, or activation_checkpointing"
    )
