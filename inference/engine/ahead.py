"""The next step, begun while the device still computes this one, so that it need not wait for the host.

Where each sequence of a step gains one token, the next step is most likely the same ones again: it is begun
with their tokens as the device chooses them, which the host does not know yet. It is a guess as a draft is
one: what is then planned is taken from it, and the rest was computed in vain. That stands behind all that is
counted on, and the device does one thing after the other: nothing has to be taken back.
"""

import logging
from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from dataclasses import dataclass

from inference.engine.edits import reads
from inference.engine.pack import Packed, pack
from inference.engine.pages import Pages
from inference.engine.sampler import BROKEN, Sampler
from inference.engine.scheduler import Plan
from inference.engine.sequence import Sequence
from inference.engine.step import Begun, Outcome, Stepper, short_of_memory
from inference.model.batch import Batch, Move, Runner

log = logging.getLogger(__name__)

UNKNOWN = -1  # in the place of an id that is still to come
TRIES = 3  # that fail one after the other: no more is begun early then

Place = tuple[int, int, int]  # of a token: the row, how many tokens are before it, the page it stands in


@dataclass(frozen=True, slots=True)
class Early:
    """A step begun before it is planned, and by sequence where its token stands."""

    begun: Begun
    places: dict[int, Place]


class AheadStepper(Stepper):
    """A Stepper that begins steps early, on a runner that overlaps, and whose memory is `pages`."""

    def __init__(self, runner: Runner, sampler: Sampler, pages: Pages) -> None:
        super().__init__(runner, sampler, pages.context)
        self.pages = pages
        self.early: Early | None = None
        self.failed = 0

    def ready(self, plan: Plan) -> list[Outcome]:
        """The outcomes for those of the plan whose step was begun early; the others' turn comes next.

        Where these are all of both, and none would rather have its drafts, the step behind is begun as well.
        """
        early, self.early = self.early, None
        if early is None:
            return []
        held = {s.id for s, _ in plan if s.todo == 1 and early.places.get(s.id) == self._place(s, s.cached)}
        drafted = any(sequence.drafts for sequence, _ in plan)
        for sequence, _ in plan:
            sequence.drafts = []
        try:
            if len(held) == len(plan) == len(early.places) and not drafted:
                return self._carry_on(early.begun)
            outcomes = self.end(early.begun)
        except Exception:
            log.exception("step begun early failed sequences=%d", len(early.places))
            return []
        self._sweep(early, outcomes, held)
        return [outcome for outcome in outcomes if outcome.sequence.id in held]

    def attempt(self, plan: Plan, moves: Several[Move]) -> list[Outcome]:
        return self._carry_on(self.begin(pack(plan, moves, self.context), plan))

    def _carry_on(self, begun: Begun) -> list[Outcome]:
        """The outcomes of a step, the one behind it begun before they are known."""
        early = self._follow(begun)
        outcomes = self.end(begun)
        self.early = early
        return outcomes

    def _follow(self, begun: Begun) -> Early | None:
        """Begin the step behind; None where the host must see the outcomes first."""
        sequences = [outcome.sequence for outcome in begun.outcomes]
        fails = any(outcome.error for outcome in begun.outcomes)
        if fails or self.failed >= TRIES or self.pages.moves or begun.packed.sampled != sequences:
            return None
        if not all(map(self._goes_on, sequences)):
            return None
        try:
            early = self._begin_behind(begun, sequences)
        except Exception as error:  # whoever is to blame is found where the step is planned
            self.failed += 1
            log.warning("no step begun early error=%s", error, exc_info=not short_of_memory(error))
            return None
        self.failed = 0
        return early

    def _goes_on(self, sequence: Sequence) -> bool:
        """Whether it takes another token behind the one that is on its way, whichever that is."""
        full = min(sequence.limit, self.context)
        return len(sequence.tokens) + 1 < full and self.pages.spare(sequence) > 0 and not reads(sequence)

    def _begin_behind(self, begun: Begun, sequences: list[Sequence]) -> Early:
        assert begun.drawn is not None
        rows = range(len(sequences))
        batch = Batch(
            ids=[UNKNOWN for _ in rows],
            starts=range(len(rows) + 1),
            cached=[len(sequence.tokens) for sequence in sequences],
            rows=[sequence.row for sequence in sequences],
            want=rows,
            tables=[sequence.pages for sequence in sequences],
            coming=begun.drawn.ids.clamp(min=0),  # any token, where there is none
        )
        places = {s.id: self._place(s, len(s.tokens)) for s in sequences}
        with grown(sequences):
            return Early(self.begin(Packed(batch, sequences), [(s, 1) for s in sequences]), places)

    def _place(self, sequence: Sequence, at: int) -> Place:
        return sequence.row, at, sequence.pages[at // self.pages.size]

    def _sweep(self, early: Early, outcomes: list[Outcome], held: set[int]) -> None:
        """Have those pages wiped where something else than numbers was written in vain."""
        for outcome in outcomes:
            id = outcome.sequence.id
            if id not in held and outcome.choices[0].id == BROKEN:
                self.pages.wipe(early.places[id][-1])


@contextmanager
def grown(sequences: Several[Sequence]) -> Iterator[None]:
    """The token that is on its way counts as one of theirs meanwhile."""
    for sequence in sequences:
        sequence.coming = 1
    try:
        yield
    finally:
        for sequence in sequences:
            sequence.coming = 0
