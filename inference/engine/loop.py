"""The loop, turn by turn: schedule, compute, take the outcome into the sequences, send what they gained.

Single-threaded: its caller is its one owner. It knows ids and integers, never text, HTTP, queues or a model.
"""

import heapq
import logging
import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several

from inference.engine.admission import Admission
from inference.engine.ahead import AheadStepper
from inference.engine.errand import Errands
from inference.engine.gate import Gate
from inference.engine.outbox import Outbox
from inference.engine.pages import Pages
from inference.engine.pieces import Pieces
from inference.engine.rows import Rows
from inference.engine.sampler import Choice, Sampler
from inference.engine.scheduler import Scheduler
from inference.engine.seating import Seating
from inference.engine.sequence import Record, Sequence, Tops
from inference.engine.speculate import Speculator
from inference.engine.stats import Counts, Step
from inference.engine.step import Outcome, Shortage, Stepper
from inference.errors import Internal, ServerError
from inference.model.batch import Move, Runner, Shape
from inference.types import FinishReason

log = logging.getLogger(__name__)


class Loop:
    """`sequences` holds all that have entered and not ended, by id; `errands` go on between their steps."""

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        gate: Gate,
        budget: int,
        admission: Admission,
        reuse: bool = True,
        drafts: int = 0,
        piece: int = 0,
    ) -> None:
        whole = runner.encodes or not runner.resumes
        pieces = Pieces(runner.context if piece and whole else piece)
        self.runner = runner
        self.seating = seating_of(runner, reuse and runner.resumes and not runner.encodes, pieces)
        self.scheduler = Scheduler(
            self.seating, budget=budget, whole=whole, admission=admission, pieces=pieces
        )
        self.speculator = Speculator(self.seating, 0 if whole or piece else drafts)
        self.stepper = stepping(runner, sampler, self.seating, pieces)
        self.gate = gate
        self.outbox = Outbox()
        self.errands = Errands()
        self.counts = Counts()
        self.sequences: dict[int, Sequence] = {}
        self.watch: Callable[[Step], None] = unwatched
        self._deadlines: list[tuple[float, int]] = []

    @property
    def idle(self) -> bool:
        return not self.sequences and not self.errands

    def enter(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self.sequences[sequence.id] = sequence
            self.scheduler.waiting.append(sequence)
            if sequence.task.deadline is not None:
                heapq.heappush(self._deadlines, (sequence.task.deadline, sequence.id))

    def end(self, ids: Iterable[int], reason: FinishReason) -> None:
        """End those of the ids that have not ended yet."""
        for id in ids:
            if id in self.sequences:
                self._end(self.sequences[id], reason)

    def turn(self) -> None:
        """One step for whoever is here and one of an errand, and their records on their way."""
        self._expire()
        if self.sequences:
            self._step()
        self.errands.turn(shares=bool(self.sequences))
        self.outbox.send()
        if self.idle:
            self.seating.check()

    def close(self, error: ServerError) -> None:
        """End every sequence and errand with error. Nothing can be computed afterwards."""
        for sequence in self.sequences.values():
            self.outbox.add(sequence.outlet, Record(error=error))
        self.sequences.clear()
        self.errands.close(error)
        self.outbox.send()

    def _expire(self) -> None:
        while self._deadlines and self._deadlines[0][0] <= time.monotonic():
            self.end([heapq.heappop(self._deadlines)[1]], "deadline")

    def _step(self) -> None:
        began = time.perf_counter()
        plan = self.scheduler.schedule()
        assert plan, "sequences are here and none can run"
        self.speculator.draft(plan, self.scheduler.budget)
        self._welcome(self.scheduler.seated)
        if ready := self.stepper.ready(plan):
            plan = [(outcome.sequence, outcome.count) for outcome in ready]  # the others' turn comes next
        prompts = any(not sequence.started for sequence, _ in plan)
        moves = [] if ready else self.seating.take_moves()
        outcomes = None
        try:
            outcomes = ready or self.stepper.compute(plan, moves)
        except Shortage as shortage:
            self._relieve(shortage, moves)
        else:
            self._commit(outcomes)
        seconds = time.perf_counter() - began
        self.counts.steps += 1
        self.counts.step_seconds += seconds
        tokens = sum(count + len(sequence.drafts) for sequence, count in plan)
        self.watch(Step(tokens, len(self.scheduler.seated), prompts, seconds, failed=outcomes is None))

    def _welcome(self, seated: Several[Sequence]) -> None:
        for sequence in seated:
            if self.gate.leave(sequence.id):
                sequence.reused = sequence.cached
                sequence.waited = time.monotonic() - sequence.arrived

    def _commit(self, outcomes: Several[Outcome]) -> None:
        """Take what the step computed into the sequences, and send what each gained."""
        self.scheduler.succeed()
        # From the last row down: freeing a row then never moves one that is about to be freed.
        for outcome in reversed(outcomes):
            sequence = outcome.sequence
            if outcome.error is not None:
                self._fail(sequence, outcome.error)
                continue
            sequence.cached += outcome.count
            if outcome.scores:
                sequence.prompt_scores += outcome.scores
            if sequence.todo == 0:
                self._gain(sequence, outcome.choices, outcome.spoilt)

    def _gain(self, sequence: Sequence, choices: Several[Choice], spoilt: bool) -> None:
        """Its tokens are all computed: add those chosen, if any were to be, and see whether it ends."""
        self.counts.failing = 0
        if not sequence.started:
            self.counts.prompt_tokens += len(sequence.task.ids)
            self.counts.cached_tokens += sequence.reused
        if choices:
            self._add(sequence, choices)
        if spoilt:
            self.scheduler.preempt(sequence, trusted=False)
        if choices and choices[-1].id in sequence.task.ends:
            self._end(sequence, "stop", choices)
        elif len(sequence.tokens) >= min(sequence.limit, self.seating.context):
            self._end(sequence, "length", choices)
        else:
            self.outbox.add(sequence.outlet, record(sequence, choices))

    def _add(self, sequence: Sequence, choices: Several[Choice]) -> None:
        """Take the tokens chosen into the sequence: all but the last were drafts, which its row holds."""
        sequence.tokens += [choice.id for choice in choices]
        sequence.cached = len(sequence.tokens) - 1
        self.counts.generated_tokens += len(choices)
        self.counts.drafted_tokens += len(sequence.drafts)
        self.counts.accepted_tokens += len(choices) - 1

    def _end(self, sequence: Sequence, reason: FinishReason, choices: Several[Choice] = ()) -> None:
        self.outbox.add(sequence.outlet, record(sequence, choices, reason))
        self._leave(sequence)
        self.counts.ends[reason] += 1
        log.debug("sequence ended id=%d reason=%s tokens=%d", sequence.id, reason, sequence.generated)

    def _fail(self, sequence: Sequence, error: ServerError) -> None:
        """End it with error; what its row holds is not used again, unless the error is its request's own."""
        ours = error.status >= 500
        self.outbox.add(sequence.outlet, Record(error=error))
        self._leave(sequence, trusted=not ours)
        self.counts.ends["error"] += 1
        self.counts.failing += ours
        told = "sequence failed id=%d tokens=%d error=%s"
        log.log(logging.ERROR if ours else logging.INFO, told, sequence.id, len(sequence.tokens), error)

    def _leave(self, sequence: Sequence, trusted: bool = True) -> None:
        del self.sequences[sequence.id]
        self.scheduler.drop(sequence, trusted)
        self.gate.leave(sequence.id)

    def _relieve(self, shortage: Shortage, moves: Several[Move]) -> None:
        """Memory ran out, nothing was computed: ask for less next time, or give up whom it cannot hold.

        What is in the memory counts as lost where moves may be half done, or a recurrent state half advanced.
        """
        self.counts.shortages += 1
        excessive = self.scheduler.relieve()
        if any(isinstance(move, Shape) for move in moves):
            self.seating.shrink()
        if moves or not self.runner.resumes:
            self.scheduler.forget(moves)
        log.warning(
            "memory ran out budget=%d seats=%d area=%d error=%s",
            *(self.scheduler.budget, self.scheduler.seats, self.seating.area, shortage),
        )
        if excessive is not None:
            self._fail(excessive, Internal("the server has too little memory for this request"))


def seating_of(runner: Runner, keeps: bool, pieces: Pieces) -> Seating:
    """The plan for the kind of memory that the runner has."""
    bounds = {
        "max_rows": runner.max_rows,
        "context": runner.context,
        "area": runner.area,
        "step": runner.step,
    }
    if runner.paged:
        assert not pieces.size, "where pages begin, pieces need not"
        return Pages(keeps=keeps, **bounds)
    return Rows(keeps=keeps, pieces=pieces, **bounds)


def stepping(runner: Runner, sampler: Sampler, seating: Seating, pieces: Pieces) -> Stepper:
    """Who computes the steps: where the device can overlap them, one who begins some early."""
    if runner.overlaps and isinstance(seating, Pages):
        return AheadStepper(runner, sampler, seating)
    return Stepper(runner, sampler, seating.context, pieces)


def unwatched(step: Step) -> None:
    """Nobody wants to know of steps."""


def record(sequence: Sequence, choices: Several[Choice], reason: str = "") -> Record:
    """What this step yields for sequence; the first one also tells what its prompt came to."""
    first, sequence.started = not sequence.started, True
    return Record(
        *gained(choices),
        cached=sequence.reused if first else None,
        waited=sequence.waited if first else 0.0,
        prompt=tuple(sequence.prompt_scores) if first else (),
        reason=reason,
    )


def gained(choices: Several[Choice]) -> tuple[tuple[int, ...], tuple[float, ...], tuple[Tops, ...]]:
    """Ids, logprobs and tops, as a Record holds them."""
    scored = [choice for choice in choices if choice.logprob is not None]
    return (
        tuple(choice.id for choice in choices),
        tuple(choice.logprob for choice in scored if choice.logprob is not None),
        tuple(choice.tops for choice in scored),
    )
