"""Packs short rows into long sequences, so that little of a batch is padding.

Each row keeps its own positions, which restart at 0: attention that respects them sees no other row. Knows no
tensors.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tuning.data.examples import Example


@dataclass(frozen=True, slots=True)
class PackedSequence:
    """Rows one after the other; each list has one entry for each token.

    position_ids  restart at 0 with each row
    lines         of the rows, in their order
    """

    token_ids: tuple[int, ...]
    weights: tuple[float, ...]
    position_ids: tuple[int, ...]
    lines: tuple[int, ...]


def pack(examples: Sequence[Example], max_length: int) -> list[PackedSequence]:
    """Put every row into one of few sequences of at most max_length tokens (0: of the longest row).

    Longest rows first, each into the fullest sequence that has room (best-fit decreasing). Rows keep their
    order within a sequence, and the sequences are ordered by their first row.
    """
    lengths = [len(example.token_ids) for example in examples]
    capacity = max_length or max(lengths, default=0)
    bins: list[list[int]] = []
    free_spaces: list[tuple[int, int]] = []  # (free tokens, index of the bin), ascending
    for row in sorted(range(len(examples)), key=lambda row: (-lengths[row], row)):
        fitting = bisect_left(free_spaces, (lengths[row], 0))
        if fitting < len(free_spaces):
            free, index = free_spaces.pop(fitting)
        else:
            free, index = capacity, len(bins)
            bins.append([])
        bins[index].append(row)
        if free > lengths[row]:
            insort(free_spaces, (free - lengths[row], index))
    return [join([examples[row] for row in rows]) for rows in sorted(map(sorted, bins))]


def join(examples: Sequence[Example]) -> PackedSequence:
    """The rows as one sequence. No token predicts the first one of the next row: its weight is 0."""
    return PackedSequence(
        tuple(chain.from_iterable(example.token_ids for example in examples)),
        tuple(chain.from_iterable(example.weights for example in examples)),
        tuple(chain.from_iterable(range(len(example.token_ids)) for example in examples)),
        tuple(example.line for example in examples),
    )
