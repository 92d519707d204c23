"""One step's computation: pack, forward, sample; and, when that fails, whose fault it was.

Knows a Runner and a Sampler. Does not know who is next, nor who listens.
"""

import logging
from collections.abc import Sequence as Several
from dataclasses import dataclass, field

import torch

from inference.engine.bans import NOTHING_LEFT
from inference.engine.pack import Packed, pack
from inference.engine.pieces import FREE, Pieces
from inference.engine.sampler import BROKEN, EMPTY, Choice, Drawn, Sampler
from inference.engine.scheduler import Plan
from inference.engine.sequence import Score, Sequence
from inference.errors import BadRequest, Internal, ServerError
from inference.model.batch import Move, Runner

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What a step did for a sequence: `count` tokens computed, prompt tokens scored, the next token chosen if
    none was left to compute, and one more for each draft that was right; or the error it failed with.

    spoilt  behind a draft that was wrong, its row holds what is not a number
    """

    sequence: Sequence
    count: int = 0
    choices: list[Choice] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    error: ServerError | None = None
    spoilt: bool = False


@dataclass(slots=True)
class Begun:
    """A step that is being computed: what is known of its outcomes, and the tokens that are on their way."""

    packed: Packed
    outcomes: list[Outcome]
    drawn: Drawn | None = None


class Shortage(Exception):
    """The step needs more memory than there is."""


class Stepper:
    """Computes plans. `context` is the number of tokens at which a row is full."""

    def __init__(self, runner: Runner, sampler: Sampler, context: int, pieces: Pieces = FREE) -> None:
        self.runner = runner
        self.sampler = sampler
        self.context = context
        self.pieces = pieces

    def ready(self, plan: Plan) -> list[Outcome]:
        """What has been computed of the plan before it was made: nothing, here (see ahead.py)."""
        return []

    def compute(self, plan: Plan, moves: Several[Move]) -> list[Outcome]:
        """The outcome for each of the plan, in its order; it is for the caller to take it into the sequences.

        What fails is tried again in parts, until each culprit stands alone. Raises Shortage when memory runs
        out: the rows then hold what they held before, but for the moves, of which nobody knows.
        """
        try:
            return self.attempt(plan, moves)
        except Exception as error:
            if short_of_memory(error):
                raise Shortage(str(error)) from error
            log.exception("step failed sequences=%d", len(plan))
        return self._isolate(plan)

    def attempt(self, plan: Plan, moves: Several[Move]) -> list[Outcome]:
        """The outcome for each of the plan. Raises whatever its computation does."""
        return self.end(self.begin(pack(plan, moves, self.context), plan))

    def begin(self, packed: Packed, plan: Plan) -> Begun:
        """Have the step computed, without waiting for the tokens it yields."""
        logits = self.runner.forward(packed.batch)
        begun = Begun(packed, [Outcome(sequence, count) for sequence, count in plan])
        if packed.proofs:
            self._prove(packed, logits, begun.outcomes)
        if packed.scored:
            self._score(packed, logits, begun.outcomes)
        if packed.scored or packed.proofs:
            logits = logits[packed.picks]
        if packed.sampled:
            begun.drawn = self.sampler.draw(logits, packed.sampled)
        return begun

    def end(self, begun: Begun) -> list[Outcome]:
        """The outcomes of the step, once its tokens are known."""
        if begun.drawn is not None:
            self._choose(begun.packed, begun.drawn.choices(), begun.outcomes)
        return begun.outcomes

    def _prove(self, packed: Packed, logits: torch.Tensor, outcomes: list[Outcome]) -> None:
        """Fail at once whose part of a prompt came out as no numbers: others could be seated in them."""
        sound = logits[list(packed.proofs.values())].amax(-1).isfinite().tolist()  # sync
        of = dict(zip(packed.proofs, sound, strict=True))
        for outcome in outcomes:
            if not of.get(outcome.sequence.id, True):
                outcome.error = fault(BROKEN)

    def _score(self, packed: Packed, logits: torch.Tensor, outcomes: list[Outcome]) -> None:
        of = {outcome.sequence.id: outcome for outcome in outcomes}
        for part in packed.scored:
            tops = part.sequence.task.prompt_logprobs or 0
            rows = logits[part.first : part.first + len(part.ids)]
            outcome = of[part.sequence.id]
            outcome.scores = self.sampler.score(rows, part.ids, tops)
            if any(score.logprob != score.logprob for score in outcome.scores):
                outcome.error = fault(BROKEN)

    def _choose(self, packed: Packed, choices: list[Choice], outcomes: list[Outcome]) -> None:
        chosen: dict[int, list[Choice]] = {outcome.sequence.id: [] for outcome in outcomes}
        for sequence, choice in zip(packed.sampled, choices, strict=True):
            chosen[sequence.id].append(choice)
        for outcome in outcomes:
            each = chosen[outcome.sequence.id]
            outcome.choices = agreed(each, outcome.sequence)
            outcome.spoilt = any(choice.id == BROKEN for choice in each[1:])
            if each and each[0].id < 0:
                outcome.error = fault(each[0].id)

    def _isolate(self, plan: Plan) -> list[Outcome]:
        """Compute in parts a plan that failed as a whole, its moves done. Who fails alone is the culprit.

        A forward rewrites the same columns, so it can be repeated; a recurrent state cannot be taken back, so
        where rows do not resume each sequence begins anew.
        """
        if len(plan) == 1:
            return [Outcome(plan[0][0], error=Internal("the model failed on this request"))]
        outcomes = []
        for part in halves(plan) if self.runner.resumes else map(self._anew, plan):
            try:
                outcomes += Stepper.attempt(self, part, ())
            except Exception:
                log.exception("part of a step failed sequences=%d", len(part))
                outcomes += self._isolate(part)
        return outcomes

    def _anew(self, share: tuple[Sequence, int]) -> Plan:
        sequence = share[0]
        sequence.cached = 0
        return [(sequence, self.pieces.next(sequence))]


def halves(plan: Plan) -> tuple[Plan, Plan]:
    return plan[: len(plan) // 2], plan[len(plan) // 2 :]


def agreed(choices: list[Choice], sequence: Sequence) -> list[Choice]:
    """Of the choices behind its last token and behind each draft, those before which every draft is right,
    up to an end."""
    held = choices[:1]
    for draft, choice in zip(sequence.drafts, choices[1:], strict=False):
        if held[-1].id != draft or draft in sequence.task.ends or choice.id < 0:
            break
        held.append(choice)
    return held


def fault(id: int) -> ServerError:
    """What a sequence without a token is told: id is EMPTY or BROKEN."""
    if id == EMPTY:
        return BadRequest("", NOTHING_LEFT)
    return Internal("the model's output for this request is not a number")


def short_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
