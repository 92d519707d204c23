"""The engine: takes tasks from any thread, computes them together step by step, hands out records.

One thread owns the runner, the scheduler and the rows; others send it commands. It knows ids and integers,
never text, HTTP or a model.
"""

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from queue import SimpleQueue

import torch

from inference.engine.gate import Gate
from inference.engine.rows import Rows
from inference.engine.scheduler import Scheduler
from inference.engine.sequence import Outlet, Record, Sequence, Task
from inference.engine.stats import Counts, Stats
from inference.engine.step import Choice, Outcome, Sampler, Shortage, Stepper
from inference.model.batch import Move, Runner, Shape
from inference.types import BadRequest, FinishReason, Internal, ServerError, TooLong, Unavailable

log = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class Submit:
    sequences: Several[Sequence]


@dataclass(frozen=True, slots=True)
class Cancel:
    ids: Several[int]


@dataclass(frozen=True, slots=True)
class Stop:
    pass


class Engine:
    """Computes tasks on a Runner.

    max_batch_tokens    tokens a step computes: decoding sequences always get theirs, prompts share the rest
    max_waiting_tokens  prompt tokens that may wait for their turn; beyond, submit raises Overloaded
    """

    def __init__(
        self, runner: Runner, sampler: Sampler, *, max_batch_tokens: int, max_waiting_tokens: int
    ) -> None:
        self.runner = runner
        self.rows = Rows(
            max_rows=runner.max_rows,
            context=runner.context,
            area=runner.area,
            step=runner.step,
            keeps=runner.resumes and not runner.encodes,
        )
        whole = runner.encodes or not runner.resumes
        self.scheduler = Scheduler(self.rows, budget=max_batch_tokens, whole=whole)
        self._stepper = Stepper(runner, sampler, self.rows.context)
        self._gate = Gate(max_waiting_tokens)
        self._inbox: SimpleQueue[Submit | Cancel | Stop] = SimpleQueue()
        self._ids = count()
        self._sequences: dict[int, Sequence] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._outbox: list[tuple[Outlet, Record]] = []
        self._post: Post = at_once
        self._counts = Counts()
        self._stopping = False
        self._thread: threading.Thread | None = None

    # For any thread ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End every sequence with Unavailable and take no more. Returns when that is done; idempotent."""
        self._inbox.put(Stop())
        if self._thread is None:
            self._close(Unavailable("the server is shutting down"))
        else:
            self._thread.join()

    def submit(self, tasks: Several[Task], outlets: Several[Outlet]) -> list[int]:
        """Queue the tasks, all or none; the records of each go to its outlet. Returns ids, for `cancel`.

        Raises BadRequest, TooLong, Overloaded when too much waits already, Unavailable once stopped or dead.
        """
        for task in tasks:
            self._examine(task)
        sequences = [self._sequence(task, outlet) for task, outlet in zip(tasks, outlets, strict=True)]
        with self._gate.enter({sequence.id: len(sequence.task.ids) for sequence in sequences}):
            self._inbox.put(Submit(sequences))
        return [sequence.id for sequence in sequences]

    def cancel(self, ids: Iterable[int]) -> None:
        """End these within a step, whatever they are at, with reason "cancelled". Idempotent."""
        self._inbox.put(Cancel(tuple(ids)))

    def deliver_with(self, post: Post) -> None:
        """Hand out each step's records by one `post(callback)`, instead of on the engine's thread."""
        self._post = post

    @property
    def alive(self) -> bool:
        return not self._gate.closed

    @property
    def reason(self) -> str:
        """Why it takes no more tasks; empty while it does."""
        return self._gate.closed

    def stats(self) -> Stats:
        return Stats(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            waiting_tokens=self._gate.waiting,
            rows=self.rows.rows,
            columns=self.rows.columns,
            budget=self.scheduler.budget,
            preemptions=self.scheduler.preemptions,
            **asdict(self._counts),
        )

    def _examine(self, task: Task) -> None:
        if not task.ids:
            raise BadRequest("prompt", "must hold at least one token")
        if not self.runner.encodes and len(task.ids) > self.rows.context:
            raise TooLong("prompt", self.rows.context, len(task.ids))

    def _sequence(self, task: Task, outlet: Outlet) -> Sequence:
        tokens, source = (self.runner.start_ids, task.ids) if self.runner.encodes else (task.ids, ())
        sequence = Sequence(next(self._ids), task, outlet, list(tokens), source)
        if task.prompt_logprobs is not None:
            sequence.prompt_scores.append((None, ()))
        return sequence

    # For the engine's thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        log.info("engine started rows=%d context=%d", self.rows.max_rows, self.rows.context)
        error: ServerError = Unavailable("the server is shutting down")
        try:
            with torch.inference_mode():
                while not self._stopping:
                    if self.idle:
                        self._obey(self._inbox.get())
                    self.step()
        except Exception:
            log.exception("engine died")
            error = Internal("the engine has failed: the server must be restarted")
        self._close(error)

    @property
    def idle(self) -> bool:
        return not self._sequences

    def step(self) -> bool:
        """One turn of the loop: obey, compute, hand out. Returns whether anything is left to do.

        For the engine's thread; for anyone, as long as it has not been started.
        """
        while not self._inbox.empty():
            self._obey(self._inbox.get())
        self._expire()
        if not self.idle:
            self._advance()
        self._emit()
        if self.idle:
            self.rows.check()
        return not self.idle

    def _obey(self, command: Submit | Cancel | Stop) -> None:
        match command:
            case Submit(sequences):
                for sequence in sequences:
                    self._enter(sequence)
            case Cancel(ids):
                for id in ids:
                    if id in self._sequences:
                        self._end(self._sequences[id], "cancelled")
            case Stop():
                self._stopping = True

    def _enter(self, sequence: Sequence) -> None:
        self._sequences[sequence.id] = sequence
        self.scheduler.waiting.append(sequence)
        if sequence.task.deadline is not None:
            heapq.heappush(self._deadlines, (sequence.task.deadline, sequence.id))

    def _expire(self) -> None:
        while self._deadlines and self._deadlines[0][0] <= time.monotonic():
            _, id = heapq.heappop(self._deadlines)
            if id in self._sequences:
                self._end(self._sequences[id], "deadline")

    def _advance(self) -> None:
        began = time.perf_counter()
        plan = self.scheduler.schedule()
        self._welcome(self.scheduler.seated)
        moves = self.rows.take_moves()
        try:
            outcomes = self._stepper.compute(plan, moves)
        except Shortage as shortage:
            self._relieve(shortage, moves)
        else:
            self._commit(outcomes)
        self._counts.steps += 1
        self._counts.step_seconds += time.perf_counter() - began

    def _welcome(self, seated: Several[Sequence]) -> None:
        for sequence in seated:
            if self._gate.leave(sequence.id):
                sequence.reused = sequence.cached

    def _relieve(self, shortage: Shortage, moves: Several[Move]) -> None:
        """Memory ran out, nothing was computed: ask for less next time, or give up whom it cannot hold.

        What is in the memory counts as lost where moves may be half done, or a recurrent state half advanced.
        """
        self._counts.shortages += 1
        excessive = self.scheduler.relieve()
        if any(isinstance(move, Shape) for move in moves):
            self.rows.shrink()
        if moves or not self.runner.resumes:
            self.scheduler.forget()
        log.warning(
            "memory ran out budget=%d seats=%d area=%d error=%s",
            *(self.scheduler.budget, self.scheduler.seats, self.rows.area, shortage),
        )
        if excessive is not None:
            self._fail(excessive, Internal("the server has too little memory for this request"))

    def _commit(self, outcomes: Several[Outcome]) -> None:
        """Take what the step computed into the sequences, and send what each gained."""
        self.scheduler.succeed()
        # From the last row down: freeing a row then never moves one that is about to be freed.
        for outcome in reversed(outcomes):
            if outcome.error is not None:
                self._fail(outcome.sequence, outcome.error)
                continue
            sequence = outcome.sequence
            sequence.cached += outcome.count
            if outcome.scores:
                sequence.prompt_scores += outcome.scores
            if sequence.todo == 0:
                self._gain(sequence, outcome.choice)

    def _gain(self, sequence: Sequence, choice: Choice | None) -> None:
        """Its tokens are all computed: add the one chosen, if one was to be, and see whether it ends."""
        counts = self._counts
        counts.failing = 0
        if not sequence.started:
            counts.prompt_tokens += len(sequence.task.ids)
            counts.cached_tokens += sequence.reused
        if choice is not None:
            counts.generated_tokens += 1
            sequence.tokens.append(choice.id)
        reason: FinishReason | None = None
        if choice is not None and choice.id in sequence.task.ends:
            reason = "stop"
        elif len(sequence.tokens) >= min(sequence.limit, self.rows.context):
            reason = "length"
        if reason:
            self._end(sequence, reason, choice)
        else:
            self._outbox.append((sequence.outlet, record(sequence, choice)))

    def _end(self, sequence: Sequence, reason: FinishReason, choice: Choice | None = None) -> None:
        self._outbox.append((sequence.outlet, record(sequence, choice, reason)))
        self._leave(sequence)
        self._counts.ends[reason] += 1
        log.debug("sequence ended id=%d reason=%s tokens=%d", sequence.id, reason, sequence.generated)

    def _fail(self, sequence: Sequence, error: ServerError) -> None:
        """End it with an error; what its row holds is not used again."""
        self._outbox.append((sequence.outlet, Record(error=error)))
        self._leave(sequence, trusted=False)
        self._counts.ends["error"] += 1
        self._counts.failing += 1
        log.error("sequence failed id=%d tokens=%d error=%s", sequence.id, len(sequence.tokens), error)

    def _leave(self, sequence: Sequence, trusted: bool = True) -> None:
        del self._sequences[sequence.id]
        self.scheduler.drop(sequence, trusted)
        self._gate.leave(sequence.id)

    def _emit(self) -> None:
        """Hand out what has gathered, in one call."""
        if not self._outbox:
            return
        outbox, self._outbox = self._outbox, []
        try:
            self._post(partial(deliver, outbox))
        except RuntimeError:
            log.exception("records not delivered count=%d", len(outbox))

    def _close(self, error: ServerError) -> None:
        """Take no more, and end with error whatever has been taken."""
        self._gate.close(error.message)
        left = list(self._sequences.values())
        self._sequences.clear()
        while not self._inbox.empty():
            command = self._inbox.get()
            left += command.sequences if isinstance(command, Submit) else ()
        self._outbox += [(sequence.outlet, Record(error=error)) for sequence in left]
        self._emit()
        log.info("engine stopped reason=%s", error.message)


def record(sequence: Sequence, choice: Choice | None, reason: str = "") -> Record:
    """What this step yields for sequence; the first one also tells what its prompt came to."""
    first = not sequence.started
    sequence.started = True
    return Record(
        ids=() if choice is None else (choice.id,),
        logprobs=() if choice is None or choice.logprob is None else (choice.logprob,),
        tops=() if choice is None or choice.logprob is None else (choice.tops,),
        cached=sequence.reused if first else None,
        prompt=tuple(sequence.prompt_scores) if first else (),
        reason=reason,
    )


def deliver(records: Several[tuple[Outlet, Record]]) -> None:
    """Give each outlet its record. One that fails is its own loss."""
    for outlet, record in records:
        try:
            outlet.put(record)
        except Exception:
            log.exception("outlet failed")


def at_once(callback: Callable[[], None]) -> None:
    callback()
