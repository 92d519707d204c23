"""What makes a token less likely for having come before: penalties by kind, count and share.

Each changes logits (W, V) in place, in the rows given with their sequences. Knows ids only.
For an encoder-decoder model the tokens of a sequence are the decoder's, as in transformers.
"""

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from inference.engine.cells import Rows, amounts
from inference.engine.sequence import Sequence
from inference.engine.window import weights


def repetition(logits: Tensor, rows: Rows) -> None:
    """Penalise each token in the prompt or the answer."""
    seen = {row: dict.fromkeys(s.tokens, s.task.sampling.repetition) for row, s in rows.items()}
    penalise(logits, seen)


def window(logits: Tensor, rows: Rows) -> None:
    """Penalise the tokens of each sequence's window, by where in it they stand."""
    penalise(logits, {row: _weights(s) for row, s in rows.items()})


def penalise(logits: Tensor, penalties: Mapping[int, Mapping[int, float]]) -> None:
    """Divide a positive logit, multiply a negative one.

    Keskar et al., "CTRL" (2019), section 4.1; the sign as in transformers' RepetitionPenaltyLogitsProcessor.
    """
    cells, by = amounts(logits, penalties)
    before = logits[cells]
    logits[cells] = torch.where(before < 0, before * by, before / by)


def repeats(logits: Tensor, rows: Rows) -> None:
    """Subtract count * frequency + presence from each token of the answer.

    OpenAI's API reference, "Frequency and presence penalties".
    """
    cells, by = amounts(logits, {row: _repeats(s) for row, s in rows.items()})
    logits[cells] -= by


def shares(logits: Tensor, rows: Rows) -> None:
    """Subtract frequency_share times a token's share of the prompt and the answer.

    Text Generation Inference, logits_process.py, HeterogeneousFrequencyPenaltyLogitsProcessor.
    """
    cells, by = amounts(logits, {row: _shares(s) for row, s in rows.items()})
    logits[cells] -= by


def _weights(sequence: Sequence) -> dict[int, float]:
    given = sequence.task.sampling.window
    assert given is not None
    return weights(given, sequence.answer)


def _repeats(sequence: Sequence) -> dict[int, float]:
    sampling = sequence.task.sampling
    counts = Counter(sequence.answer)
    return {token: count * sampling.frequency + sampling.presence for token, count in counts.items()}


def _shares(sequence: Sequence) -> dict[int, float]:
    each = sequence.task.sampling.frequency_share / len(sequence.tokens)
    return {token: count * each for token, count in Counter(sequence.tokens).items()}
