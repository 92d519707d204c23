"""Drafts: guesses at what a sequence says next, computed in one step with its last token.

Where a sequence repeats itself or its prompt, what came behind its latest tokens the time before comes again
(Saxena, "Prompt Lookup Decoding", 2023). A draft counts only if it is what the sampler chooses in its place,
so no answer depends on this file. Knows sequences and plans; nothing of logits.
"""

from collections.abc import Sequence as Several

from inference.engine.scheduler import Plan
from inference.engine.seating import Seating
from inference.engine.sequence import Sequence

RUN = 3  # tokens that must have come before, in this order, for a guess at what follows
# What drafts cost, measured on CPUs with models of 5 and 77 million parameters.
STEP = 16  # a step costs as much as so many of its tokens, before its first one
SECOND = 0.4  # a token beside one that was alone costs this share of a step more: no more matrix × vector
ROOM = 32  # tokens of a step with drafts, each row counted as wide as the widest: more may take a second call
CHUNK = 1024  # tokens of a long prompt that are taken in at once
FIRST, LAST = 0.25, 0.99  # trust in a sequence's first guess, and the most there is
PACE = 1 / 8  # how fast trust changes


class Lookup:
    """One sequence's runs of tokens, and what it would have been guessed to say.

    trust     how likely the next guess is right: the share of late ones that were, drafts or not
    foreseen  what may follow the first `behind` tokens
    """

    def __init__(self) -> None:
        self.trust = FIRST
        self.foreseen: list[int] = []
        self.behind = 0
        self._places: dict[tuple[int, ...], int] = {}
        self._known = RUN

    def read(self, tokens: list[int], most: int) -> None:
        """Judge the last guess by what the tokens have become, and guess up to `most` again."""
        self._judge(tokens[self.behind :])
        self._learn(tokens)
        self.behind = len(tokens)
        place = self._places.get(tuple(tokens[-RUN:]), len(tokens))
        period = len(tokens) - place  # where a guess reaches the end, it goes on with its own beginning
        self.foreseen = [tokens[place + i % period] for i in range(most)] if period else []

    def _judge(self, gained: list[int]) -> None:
        for guess, token in zip(self.foreseen, gained, strict=False):
            self.trust += PACE * ((guess == token) - self.trust)
            if guess != token:
                break
        self.trust = min(self.trust, LAST)

    def _learn(self, tokens: list[int]) -> None:
        """Note for each run where it was last followed by a token, and so not yet for the run at the end."""
        end = min(len(tokens), self._known + CHUNK)
        if end > self._known:
            runs = zip(*(tokens[self._known - RUN + i : end - RUN + i] for i in range(RUN)), strict=True)
            self._places.update(zip(runs, range(self._known, end), strict=True))
            self._known = end


class Speculator:
    """Gives the sequences of each plan their drafts, as many as are likely to pay.

    most   drafts of a sequence in a step; 0: none ever
    """

    def __init__(self, seating: Seating, most: int) -> None:
        self.seating = seating
        self.most = most
        self._lookups: dict[int, Lookup] = {}

    def draft(self, plan: Plan, budget: int) -> None:
        """Set the drafts of each sequence in the plan, of which the step may compute `budget` tokens in all.

        There are none beside a prompt, whose tokens use the step well, nor where an answer obeys a grammar.
        """
        if not self.most:
            return
        lookups = self._lookups
        self._lookups = {}
        for sequence, _ in plan:
            sequence.drafts = []
            if guessable(sequence):
                lookup = self._lookups[sequence.id] = lookups.get(sequence.id) or Lookup()
                lookup.read(sequence.tokens, self.most)
        if all(count == 1 for _, count in plan):
            depth = min(self.most, min(ROOM, budget) // len(plan) - 1)
            self._give([sequence for sequence, _ in plan], depth)

    def _give(self, sequences: list[Sequence], most: int) -> None:
        """The same depth to all that have a guess worth its logits, as no row is computed narrower."""
        found = {s: self._lookups[s.id] for s in sequences if s.id in self._lookups}
        found = {s: lookup for s, lookup in found.items() if lookup.foreseen and lookup.trust * STEP > 1}
        depth = worth([lookup.trust for lookup in found.values()], len(sequences), most)
        for sequence, lookup in found.items():
            sequence.drafts = lookup.foreseen[: min(depth, room(sequence, self.seating))]


def guessable(sequence: Sequence) -> bool:
    return sequence.todo == 1 and sequence.generated > 0 and sequence.task.matcher is None


def room(sequence: Sequence, seating: Seating) -> int:
    """Drafts its seat has room for, behind which one more token fits its limit."""
    full = min(sequence.limit, seating.context) - 1
    return max(0, min(full - len(sequence.tokens), seating.spare(sequence)))


def worth(trusts: Several[float], width: int, most: int) -> int:
    """How many drafts for each pay best, of `width` rows that are all computed as wide as the widest.

    A draft counts for a token where it and all before it are right.
    """
    best, fastest, gain = 0, 1.0, 0.0
    for depth in range(1, most + 1):
        gain += sum(trust**depth for trust in trusts) / width
        cost = depth * width / (STEP + width) + (SECOND if width == 1 else 0)
        if (1 + gain) / (1 + cost) > fastest:
            best, fastest = depth, (1 + gain) / (1 + cost)
    return best
