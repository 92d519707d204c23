"""A Sampler that draws each row by itself.

Sums over a row are added up in an order that depends on how many rows there are: in 150,000 numbers that is
a last bit, and a last bit is now and then another token. Knows rows; nothing of what is done with one.
"""

from collections.abc import Sequence as Ids

from torch import Tensor

from inference.engine.sampler import Choice, Sampler
from inference.engine.sequence import Score, Sequence


class LoneSampler(Sampler):
    """A Sampler for which a row of the logits is the same to compute wherever it stands."""

    def sample(self, logits: Tensor, sequences: Ids[Sequence]) -> list[Choice]:
        rows = zip(logits, sequences, strict=True)
        return [super(LoneSampler, self).sample(row.clone()[None], [sequence])[0] for row, sequence in rows]

    def score(self, logits: Tensor, ids: Ids[int], tops: int) -> list[Score]:
        """As it is, but from a copy: where a row begins in memory may decide how it is summed up."""
        return super().score(logits.clone(), ids, tops)
