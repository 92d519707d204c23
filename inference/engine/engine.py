"""The engine: takes tasks from any thread, computes them together on a thread of its own, hands out records.

Knows the threads and what passes between them: commands in, records out. What a turn of the loop does is the
loop's affair; text, HTTP and the model are others'.
"""

import logging
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from inference.engine.admission import Admission
from inference.engine.bans import check_left
from inference.engine.errand import Errand
from inference.engine.gate import Gate
from inference.engine.loop import Loop
from inference.engine.outbox import Post
from inference.engine.sampler import Sampler
from inference.engine.sequence import Outlet, Score, Sequence, Task
from inference.engine.stats import Stats, Step
from inference.engine.worker import Worker
from inference.errors import BadRequest, Internal, ServerError, TooLong, Unavailable
from inference.model.batch import Runner

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Submit:
    sequences: Several[Sequence]


@dataclass(frozen=True, slots=True)
class Cancel:
    ids: Several[int]


@dataclass(frozen=True, slots=True)
class Run:
    errand: Errand[Any]


@dataclass(frozen=True, slots=True)
class Stop:
    error: ServerError


Command = Submit | Cancel | Run | Stop


class Engine:
    """Computes tasks on a Runner.

    max_batch_tokens    tokens a step computes: decoding sequences always get theirs, prompts share the rest
    max_queued_tokens   prompt tokens that may wait for their turn; beyond, submit raises Overloaded
    admission           when those that wait may join those that run; by default at once
    reuse               what prompts have in common is computed once, where the runner resumes
    drafts              tokens guessed ahead of each sequence in a step, at most
    piece               prompts are computed in pieces of so many tokens, whoever runs beside them, and none
                        is guessed ahead; 0: in such pieces as there is room for
    """

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        *,
        max_batch_tokens: int,
        max_queued_tokens: int,
        admission: Admission | None = None,
        reuse: bool = True,
        drafts: int = 0,
        piece: int = 0,
    ) -> None:
        self._gate = Gate(max_queued_tokens)
        self._inbox: SimpleQueue[Command] = SimpleQueue()
        self._ids = count()
        self._stopped: ServerError | None = None
        self._running: Future[None] | None = None
        admission = admission or Admission()
        self.loop = Loop(runner, sampler, self._gate, max_batch_tokens, admission, reuse, drafts, piece)

    def start(self, worker: Worker | None = None) -> None:
        """Compute from now on, on the thread of `worker`, which does nothing else any more."""
        self._running = (worker or Worker("engine")).begin(self._run)

    def stop(self) -> None:
        """End all that was asked with Unavailable and take no more. Returns when that is done; idempotent."""
        error = Unavailable("the server is shutting down")
        self.fail(error)
        if self._running is None:
            self._close(error)
        else:
            self._running.result()

    def fail(self, error: ServerError) -> None:
        """End all that was asked with error and take no more. From any thread; returns at once."""
        self._gate.close(error.message)
        self._inbox.put(Stop(error))

    def submit(self, tasks: Several[Task], outlets: Several[Outlet]) -> list[int]:
        """Queue the tasks, all or none; the records of each go to its outlet. Returns ids, for `cancel`.

        Raises BadRequest, TooLong, Overloaded when too much waits already, Unavailable once stopped or dead.
        """
        sequences = [self.sequence(task, outlet) for task, outlet in zip(tasks, outlets, strict=True)]
        with self._gate.enter({sequence.id: len(sequence.task.ids) for sequence in sequences}):
            self._inbox.put(Submit(sequences))
        return [sequence.id for sequence in sequences]

    def sequence(self, task: Task, outlet: Outlet) -> Sequence:
        """The task, checked and numbered, as the loop would have it. Raises BadRequest, TooLong."""
        runner, context = self.loop.runner, self.loop.seating.context
        if not task.ids:
            raise BadRequest("prompt", "must hold at least one token")
        if not runner.encodes and len(task.ids) > context:
            raise TooLong("prompt", context, len(task.ids))
        if task.max_tokens:
            early = task.min_tokens > 0 and task.matcher is None
            check_left(task.sampling, task.ends, early, runner.vocab)
        tokens, source = (runner.start_ids, task.ids) if runner.encodes else (task.ids, ())
        sequence = Sequence(next(self._ids), task, outlet, list(tokens), source)
        if task.prompt_logprobs is not None:
            sequence.prompt_scores.append(Score())
        return sequence

    def cancel(self, ids: Iterable[int]) -> None:
        """End these within a step, whatever they are at, with reason "cancelled". Idempotent."""
        self._inbox.put(Cancel(tuple(ids)))

    def run(self, errand: Errand[T]) -> Future[T]:
        """Have the errand's work done, a step a turn. Raises Unavailable once stopped or dead."""
        with self._gate.enter({}):
            self._inbox.put(Run(errand))
        return errand.future

    def deliver_with(self, post: Post) -> None:
        """Hand out each step's records by one `post(callback)`, instead of on the engine's thread."""
        self.loop.outbox.post = post

    def watch_with(self, watch: Callable[[Step], None]) -> None:
        """Tell `watch` of each step, on the engine's thread."""
        self.loop.watch = watch

    @property
    def started(self) -> bool:
        return self._running is not None

    @property
    def reason(self) -> str:
        """Why it takes no more tasks; empty while it does."""
        return self._gate.closed

    @property
    def failing(self) -> int:
        """Sequences that failed one after the other, with none in between that gained a token."""
        return self.loop.counts.failing

    def stats(self) -> Stats:
        scheduler, seating = self.loop.scheduler, self.loop.seating
        running = tuple(scheduler.running)
        return Stats(
            running=len(running),
            waiting=len(scheduler.waiting),
            waiting_tokens=self._gate.waiting,
            room=seating.area,
            held=sum(len(sequence.tokens) for sequence in running),
            reach=sum(min(sequence.limit, seating.context) for sequence in running),
            touched=seating.touched,
            errands=len(self.loop.errands),
            budget=scheduler.budget,
            preemptions=scheduler.preemptions,
            **asdict(self.loop.counts),
        )

    def step(self) -> bool:
        """Obey what is in the inbox, then one turn of the loop. Returns whether anything is left to do.

        For the engine's own thread; for its owner, as long as it has not been started.
        """
        while not self._inbox.empty():
            self._obey(self._inbox.get())
        self.loop.turn()
        return not self.loop.idle

    def finish(self) -> None:
        """Step until nothing is left to do. For the owner of an engine that has not been started."""
        with torch.inference_mode():
            while self.step():
                pass

    def _run(self) -> None:
        log.info("engine started")
        try:
            with torch.inference_mode():
                while not self._stopped:
                    if self.loop.idle:
                        self._obey(self._inbox.get())
                    self.step()
        except Exception:
            log.exception("engine died")
            self._stopped = Internal("the engine has failed: the server must be restarted")
        self._close(self._stopped)

    def _obey(self, command: Command) -> None:
        match command:
            case Submit(sequences):
                self.loop.enter(sequences)
            case Cancel(ids):
                self.loop.end(ids, "cancelled")
            case Run(errand):
                self.loop.errands.enter(errand)
            case Stop(error):
                self._stopped = self._stopped or error

    def _close(self, error: ServerError) -> None:
        """Take no more, and end with error whatever has been taken."""
        self._gate.close(error.message)
        while not self._inbox.empty():
            command = self._inbox.get()
            if isinstance(command, Submit | Run):
                self._obey(command)
        self.loop.close(error)
        log.info("engine stopped reason=%s", error.message)
