"""Drafts of which the right ones are known: in the place of a Speculator, to try what becomes of them."""

import random
from dataclasses import dataclass, field

from inference.engine.scheduler import Plan
from inference.engine.seating import Seating
from inference.engine.sequence import Sequence
from inference.engine.speculate import guessable, room
from tests.engine.conftest import alone


@dataclass
class Prophet:
    """Drafts what the answer will be, as far as `right` says, and something else behind.

    answers  as they are without drafts, by prompt and length; those not given are worked out
    """

    seating: Seating
    answers: dict[object, list[int]]
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def draft(self, plan: Plan, budget: int) -> None:
        for sequence, _ in plan:
            sequence.drafts = self.guess(sequence) if guessable(sequence) else []

    def guess(self, sequence: Sequence) -> list[int]:
        right = self.answer(sequence)[sequence.generated :][: self.chance.randint(0, 6)]
        wrong = self.chance.choices(range(30), k=self.chance.randint(0, 3))
        return (right + wrong)[: room(sequence, self.seating)]

    def answer(self, sequence: Sequence) -> list[int]:
        key = (sequence.task.ids, sequence.task.max_tokens)
        if key not in self.answers:
            self.answers[key] = alone(sequence.task, self.seating.context)
        return self.answers[key]


class Told(Prophet):
    """Knows the answers by seed."""

    def answer(self, sequence: Sequence) -> list[int]:
        return self.answers[sequence.task.seed]
