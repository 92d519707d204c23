"""A Sampler that draws each row by itself.

Sums over a row are added up in an order that depends on how many rows there are: in 150,000 numbers that is
a last bit, and a last bit is now and then another token. Knows rows; nothing of what is done with one.
"""

from collections.abc import Sequence as Ids

import torch
from torch import Tensor

from inference.engine.sampler import Drawn, Sampler
from inference.engine.sequence import Score, Sequence


class LoneSampler(Sampler):
    """A Sampler for which a row of the logits is the same to compute wherever it stands."""

    def draw(self, logits: Tensor, sequences: Ids[Sequence]) -> Drawn:
        rows = zip(logits, sequences, strict=True)
        drawn = [super(LoneSampler, self).draw(row.clone()[None], [sequence]) for row, sequence in rows]
        ids = torch.cat([one.ids for one in drawn])
        return Drawn(ids, lambda: [choice for one in drawn for choice in one.choices()])

    def score(self, logits: Tensor, ids: Ids[int], tops: int) -> list[Score]:
        """As it is, but from a copy: where a row begins in memory may decide how it is summed up."""
        return super().score(logits.clone(), ids, tops)
