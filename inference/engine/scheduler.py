"""Who computes how much in the next step. There is no prefill and no decoding: a sequence has tokens to do.

Knows sequences and their rows; nothing of tensors, records or threads.
"""

from bisect import insort
from collections.abc import Iterator
from collections.abc import Sequence as Several
from operator import attrgetter

from inference.engine.admission import Admission
from inference.engine.pieces import FREE, Pieces
from inference.engine.seating import Seating
from inference.engine.sequence import Sequence
from inference.model.batch import Move

Plan = list[tuple[Sequence, int]]  # who computes how many tokens, in the order of their rows

PROMPTS = 4  # prompts in rows side by side at least, so that a long one does not hide the short ones
SCORED = 256  # tokens a step of a prompt whose every position yields logits, which are wide
LEAST = 16  # tokens a step computes even when memory is short
CALM = 256  # steps after which a shortage of memory counts as over


class Scheduler:
    """`running` have rows, ordered by age; `waiting` have none, in the order they will get one.

    budget   tokens a step computes; the decoding ones always get theirs, prompts share what is left
    whole    a row's first step takes its whole prompt, whatever the budget: one such prompt a step
    seats    sequences that may run at once
    pieces   how sequences are cut
    """

    def __init__(
        self,
        seating: Seating,
        *,
        budget: int,
        whole: bool,
        admission: Admission | None = None,
        pieces: Pieces = FREE,
    ) -> None:
        self.seating = seating
        self.admission = admission or Admission()
        self.running: list[Sequence] = []
        self.waiting: list[Sequence] = []
        self.seated: list[Sequence] = []
        self.budget = self.full_budget = budget
        self.whole = whole
        self.pieces = pieces
        self.seats = seating.max_rows
        self.preemptions = 0
        self._calm = 0

    def schedule(self) -> Plan:
        """Decoding sequences take their token each, prompts what is left of the budget.

        Where the memory cannot hold the running ones any longer, the youngest goes back to waiting. Waiting
        ones are seated in order while rows, area and budget last; `seated` lists them. One whose prefix a
        running one is about to compute (`Seating.awaits`) is passed over until it has.
        """
        while not self.seating.widen():
            self.preempt(self.running[-1])
        decoding = [sequence for sequence in self.running if self.pieces.next(sequence) == 1]
        prompts = [sequence for sequence in self.running if self.pieces.next(sequence) > 1]
        room = max(1, self.budget - len(decoding))
        self.seated = self._seat(len(prompts), sum(map(cost, prompts)), room)
        plan = [(sequence, 1) for sequence in decoding]
        plan += self._divide(prompts + self.seated, room)
        plan.sort(key=row_of)
        return plan

    def preempt(self, sequence: Sequence, trusted: bool = True) -> None:
        """Back to the front of waiting, text and all; what its seat held stays findable, if trusted."""
        self.running.remove(sequence)
        self.seating.release(sequence, trusted)
        self.waiting.insert(0, sequence)
        self.preemptions += 1

    def drop(self, sequence: Sequence, trusted: bool = True) -> None:
        """It has ended, wherever it is."""
        if sequence.row < 0:
            self.waiting.remove(sequence)
            return
        self.running.remove(sequence)
        self.seating.release(sequence, trusted)

    def relieve(self) -> Sequence | None:
        """Memory ran out in a step: half the budget and one sequence less, until CALM steps went well.

        Returns the sequence for which it ran out again, alone and with the least budget; else None.
        """
        if len(self.running) == 1 and self.budget <= LEAST and not self._calm:
            self._restore()
            return self.running[0]
        self.budget = max(min(LEAST, self.full_budget), self.budget // 2)
        self.seats = max(1, len(self.running) - 1)
        self._calm = 0
        if len(self.running) > 1:
            self.preempt(self.running[-1])
        return None

    def forget(self, lost: Several[Move] = ()) -> None:
        """Nothing in the memory can be trusted: everyone computes again, in the same order. lost: moves that
        may not have been done."""
        self.preemptions += len(self.running)
        self.waiting[:0] = self.running
        self.running.clear()
        self.seating.forget(lost)

    def succeed(self) -> None:
        """A step went well; enough of them in a row end a shortage."""
        self._calm += 1
        if self._calm == CALM:
            self._restore()

    def _restore(self) -> None:
        self.budget, self.seats = self.full_budget, self.seating.max_rows

    def _seat(self, prompts: int, wanted: int, room: int) -> list[Sequence]:
        """Seat waiting sequences behind so many prompts, which want so much of the room."""
        seated: list[Sequence] = []
        if not self.admission.opens(len(self.waiting), len(self.running)):
            return seated
        for sequence in self.waiting[: self.seating.max_rows]:
            if not self._admits(sequence, prompts + len(seated), wanted, room):
                break
            if self.seating.awaits(sequence):
                continue
            if not self.seating.seat(sequence):
                break
            self.waiting.remove(sequence)
            insort(self.running, sequence, key=id_of)
            seated.append(sequence)
            wanted += cost(sequence)
            self.admission.joined()
        return seated

    def _admits(self, sequence: Sequence, prompts: int, wanted: int, room: int) -> bool:
        if len(self.running) >= self.seats:
            return False
        if self.whole:
            return not prompts or wanted + cost(sequence) <= room
        return wanted < room or prompts < min(PROMPTS, room)

    def _divide(self, prompts: list[Sequence], room: int) -> Iterator[tuple[Sequence, int]]:
        """The shortest first, so that most are soon through; but half the room is the oldest's, so that it
        gets through at all."""
        oldest = min(prompts, key=id_of, default=None)
        if self.whole or self.pieces.size:
            yield from self._cut(sorted(prompts, key=lambda s: (s is not oldest, s.todo)), room)
            return
        reserved = min(oldest.todo, -(-room // 2)) if oldest else 0
        for sequence in sorted(prompts, key=attrgetter("todo")):
            reserved = 0 if sequence is oldest else reserved
            most = SCORED if sequence.task.prompt_logprobs is not None else room
            count = min(sequence.todo, most, room - reserved)
            room -= count
            if count:
                yield sequence, count

    def _cut(self, prompts: list[Sequence], room: int) -> Iterator[tuple[Sequence, int]]:
        """A piece for each as long as there is room, be it for less than the last one."""
        for sequence in prompts:
            if room <= 0:
                return
            count = self.pieces.next(sequence)
            room -= count
            yield sequence, count


def cost(sequence: Sequence) -> int:
    """Tokens it will take to its next one; where it begins, an encoder's input as well."""
    return sequence.todo + (0 if sequence.cached else len(sequence.source))


id_of = attrgetter("id")


def row_of(share: tuple[Sequence, int]) -> int:
    return share[0].row
