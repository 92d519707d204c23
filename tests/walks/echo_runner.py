"""A fake runner with answers that repeat themselves; each logit depends on all tokens before it.

Drafts are often right; tokens and logprobs are right only if the row contains the right tokens.
"""

from collections.abc import Sequence as SequenceOf
from math import isnan, nan

import torch

from inference.model.batch import Batch
from tests.engine.conftest import NAN, POISON, VOCAB, FakeRunner, logits_after

ECHO = 20.0  # added to the logit of an echoed token: more than the distance between any two logits


def echo_logits(ids: SequenceOf[int], source: SequenceOf[int] = ()) -> list[float]:
    """A fixed function of all the ids.

    If the first id is odd, the answer mostly repeats the token from a few positions ago, so that drafts are
    often right and sometimes wrong.
    """
    values = logits_after(ids, source)
    if isnan(values[0]):
        return values
    first = (*source, *ids)[0]
    period = 1 + first % 4
    if first % 2 and len(ids) > period and int(100 * values[1]) % 11:
        values[ids[-period]] += ECHO
    return values


class EchoRunner(FakeRunner):
    """A FakeRunner that echoes. NaN anywhere in a row makes its logits NaN, since 0 × nan is nan."""

    def _logits(self, batch: Batch) -> torch.Tensor:
        logits = []
        for index, row in enumerate(batch.rows):
            ids = self.row_ids(
                row,
                batch.num_computed_tokens[index]
                + batch.query_start_loc[index + 1]
                - batch.query_start_loc[index],
            )
            logits += logits_of_row(
                batch, index, ids, self.encoder_inputs[row], has_nan=NAN in self.memory[row]
            )
        return torch.tensor(logits).reshape(len(batch.logits_indices), VOCAB)


def logits_of_row(
    batch: Batch, index: int, ids: SequenceOf[int], source: SequenceOf[int] = (), has_nan: bool = False
) -> list[list[float]]:
    """The logits that a batch requests of a row; `ids` are all tokens of the row, including those of the
    batch.
    """
    if POISON in ids or POISON in source:
        raise ValueError("poisoned")
    start, end, cached = (
        batch.query_start_loc[index],
        batch.query_start_loc[index + 1],
        batch.num_computed_tokens[index],
    )
    lengths = [cached + at - start + 1 for at in batch.logits_indices if start <= at < end]
    return [[nan] * VOCAB if has_nan else echo_logits(ids[:length], source) for length in lengths]
