"""A Sampler that adds up no two rows together.

Sums over a row are added up in an order that depends on how many rows there are: in 150,000 numbers that is
a last bit, and a last bit is now and then another token. Native code goes through each row by itself, and
draws them together; logprobs, and all where there is none, are of one row at a time. Knows rows; nothing of
what is done with one.
"""

from collections.abc import Sequence as Ids

import torch
from torch import Tensor

from inference.engine.sampler import Choice, Drawn, Sampler
from inference.engine.sequence import Score, Sequence
from inference.native import draw as native


class LoneSampler(Sampler):
    """A Sampler for which a row of the logits is the same to compute wherever it stands."""

    def draw(self, logits: Tensor, sequences: Ids[Sequence]) -> Drawn:
        natively = native.takes(logits)
        sums = [row for row, s in enumerate(sequences) if s.task.logprobs is not None or not natively]
        if not sums:
            return super().draw(logits, sequences)
        others = [row for row in range(len(sequences)) if row not in sums]
        parts = [[row] for row in sums] + [others] * bool(others)
        drawn = [
            super(LoneSampler, self).draw(logits[part], [sequences[row] for row in part]) for part in parts
        ]
        rows = [row for part in parts for row in part]
        places = torch.tensor(rows).argsort().to(logits.device)

        def choices() -> list[Choice]:
            found = dict(zip(rows, (choice for one in drawn for choice in one.choices()), strict=True))
            return [found[row] for row in range(len(sequences))]

        return Drawn(torch.cat([one.ids for one in drawn])[places], choices)

    def score(self, logits: Tensor, ids: Ids[int], tops: int) -> list[Score]:
        """As it is, but from a copy: where a row begins in memory may decide how it is summed up."""
        return super().score(logits.clone(), ids, tops)
