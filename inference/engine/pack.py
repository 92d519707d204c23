"""A plan becomes a Batch: the integers of one step, and where its logits belong.

Knows sequences and the Batch; computes nothing.
"""

from collections.abc import Sequence as Ids
from dataclasses import dataclass, field

from inference.engine.scheduler import Plan
from inference.engine.sequence import Sequence
from inference.model.batch import Batch, Move


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows [first, first + len(ids)) of the logits tell how likely these prompt tokens were."""

    sequence: Sequence
    first: int
    ids: Ids[int]


@dataclass(slots=True)
class Packed:
    """A Batch, and whose its logits are: row picks[i] is for the next token of sampled[i].

    A sequence with drafts is sampled behind its last token and behind each draft, as it is if that is right.
    proofs  of each that is neither sampled nor scored to its end: the row that tells if it computed numbers
    """

    batch: Batch
    sampled: list[Sequence] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    scored: list[Scored] = field(default_factory=list)
    proofs: dict[int, int] = field(default_factory=dict)


def pack(plan: Plan, moves: Ids[Move], context: int) -> Packed:
    """The Batch for a plan that is in the order of rows; a row that holds `context` tokens is full."""
    ids: list[int] = []
    starts: list[int] = [0]
    cached: list[int] = []
    rows: list[int] = []
    want: list[int] = []
    sources: dict[int, Ids[int]] = {}
    tables = tuple(sequence.pages for sequence, _ in plan if sequence.pages)
    packed = Packed(Batch(ids, starts, cached, rows, want, moves, sources, tables))
    for sequence, count in plan:
        tokens, done = sequence.tokens, sequence.cached
        reached = done + count
        if sequence.task.prompt_logprobs is not None:
            want += score(packed, sequence, reached)
        ids += tokens[done:reached]
        if reached == len(tokens) < min(sequence.limit, context):
            last = len(ids) - 1
            ids += sequence.drafts
            for right in range(len(sequence.drafts) + 1):
                packed.sampled.append(sequence.ahead(right))
                packed.picks.append(len(want))
                want.append(last + right)
        elif not want or want[-1] < len(ids) - 1:
            packed.proofs[sequence.id] = len(want)
            want.append(len(ids) - 1)
        if sequence.source and not done:
            sources[sequence.row] = sequence.source
        starts.append(len(ids))
        cached.append(done)
        rows.append(sequence.row)
    return packed


def score(packed: Packed, sequence: Sequence, reached: int) -> range:
    """Note which prompt tokens the step scores; returns the positions in the batch whose logits that takes.

    The token at position p is scored by the logits at p - 1. Those scored before a preemption stay scored.
    """
    first = max(sequence.cached, len(sequence.prompt_scores) - 1)
    last = min(reached, sequence.prompt - 1)
    if first >= last:
        return range(0)
    batch = packed.batch
    packed.scored.append(Scored(sequence, len(batch.want), sequence.tokens[first + 1 : last + 1]))
    offset = len(batch.ids) - sequence.cached
    return range(first + offset, last + offset)
