"""A fake runner whose answers repeat themselves, and whose every logit tells all that came before.

Drafts are often right; and no token or probability is, unless the row held all that it should.
"""

from collections.abc import Sequence as Ids
from math import isnan, nan

import torch

from inference.model.batch import Batch
from tests.engine.conftest import NAN, POISON, VOCAB, FakeRunner, logits_after

ECHO = 20.0  # what an echoed token's logit gains: more than there is between any two


def echoing(ids: Ids[int], source: Ids[int] = ()) -> list[float]:
    """A fixed function of all the ids. Behind a beginning with an odd id, the answer mostly goes on with
    what came a few tokens ago, so that drafts are often right and sometimes wrong."""
    values = logits_after(ids, source)
    if isnan(values[0]):
        return values
    first = (*source, *ids)[0]
    period = 1 + first % 4
    if first % 2 and len(ids) > period and int(100 * values[1]) % 11:
        values[ids[-period]] += ECHO
    return values


class Witness(FakeRunner):
    """A FakeRunner that echoes. What is no number spoils its row wherever it stands, for 0 × nan is nan."""

    def _logits(self, batch: Batch) -> torch.Tensor:
        logits = []
        for index, row in enumerate(batch.rows):
            ids = self.held(row, batch.cached[index] + batch.starts[index + 1] - batch.starts[index])
            logits += wanted(batch, index, ids, self.sources[row], spoilt=NAN in self.memory[row])
        return torch.tensor(logits).reshape(len(batch.want), VOCAB)


def wanted(
    batch: Batch, index: int, ids: Ids[int], source: Ids[int] = (), spoilt: bool = False
) -> list[list[float]]:
    """The logits a batch wants of a row that holds these ids, the batch's own among them."""
    if POISON in ids or POISON in source:
        raise ValueError("poisoned")
    start, end, cached = batch.starts[index], batch.starts[index + 1], batch.cached[index]
    lengths = [cached + at - start + 1 for at in batch.want if start <= at < end]
    return [[nan] * VOCAB if spoilt else echoing(ids[:length], source) for length in lengths]
