"""Penalties on repeated tokens: by presence, by count, by share, and by the position in a window.

Each changes logits (W, V) in place, in the given rows. Knows token ids only. For an encoder-decoder model the
tokens of a sequence are the decoder's, as in transformers.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf

import torch
from torch import Tensor

from inference.engine.sampling.scatter import SequencesByRow, find_indices_and_values
from inference.engine.sequence import Sequence
from inference.sampling import PenaltyWindow


def apply_repetition_penalty(logits: Tensor, rows: SequencesByRow) -> None:
    """Penalise each token of the prompt and the answer."""
    penalties = {
        row: dict.fromkeys(s.token_ids, s.request.sampling.repetition_penalty) for row, s in rows.items()
    }
    penalise(logits, penalties)


def apply_window_penalty(logits: Tensor, rows: SequencesByRow) -> None:
    """Penalise the tokens of each sequence's window by their position in it."""
    penalise(logits, {row: _window_penalties(s) for row, s in rows.items()})


def penalise(logits: Tensor, penalties: Mapping[int, Mapping[int, float]]) -> None:
    """Divide a positive logit, multiply a negative one.

    Keskar et al., "CTRL" (2019), section 4.1; the sign as in transformers' RepetitionPenaltyLogitsProcessor.
    """
    indices, factors = find_indices_and_values(logits, penalties)
    old_logits = logits[indices]
    logits[indices] = torch.where(old_logits < 0, old_logits * factors, old_logits / factors)


def apply_count_penalties(logits: Tensor, rows: SequencesByRow) -> None:
    """Subtract count * frequency + presence from each token of the answer.

    OpenAI's API reference, "Frequency and presence penalties".
    """
    indices, penalties = find_indices_and_values(
        logits, {row: _count_penalties(s) for row, s in rows.items()}
    )
    logits[indices] -= penalties


def apply_tgi_frequency_penalty(logits: Tensor, rows: SequencesByRow) -> None:
    """Subtract tgi_frequency_penalty times a token's share of the prompt and the answer.

    Text Generation Inference, logits_process.py, HeterogeneousFrequencyPenaltyLogitsProcessor.
    """
    penalties_by_row = {}
    for row, sequence in rows.items():
        each = sequence.request.sampling.tgi_frequency_penalty / len(sequence.token_ids)
        penalties_by_row[row] = {id: count * each for id, count in Counter(sequence.token_ids).items()}
    indices, penalties = find_indices_and_values(logits, penalties_by_row)
    logits[indices] -= penalties


def _window_penalties(sequence: Sequence) -> dict[int, float]:
    penalty_window = sequence.request.sampling.penalty_window
    assert penalty_window is not None
    return window_weights(penalty_window, sequence.output_token_ids)


def _count_penalties(sequence: Sequence) -> dict[int, float]:
    sampling = sequence.request.sampling
    counts = Counter(sequence.output_token_ids)
    return {
        token: count * sampling.frequency_penalty + sampling.presence_penalty
        for token, count in counts.items()
    }


def window_weights(penalty_window: PenaltyWindow, output_token_ids: SequenceOf[int]) -> dict[int, float]:
    """The penalty of each token in a window over the latest text (Neodim's repetition penalty).

    If a token occurs several times, its last position counts. The curve is computed only where there is text.
    """
    curve_length = _curve_length(penalty_window, len(output_token_ids))
    token_ids = _last_tokens(penalty_window, output_token_ids, curve_length)
    if penalty_window.slope == 0 or curve_length == 1:
        return dict.fromkeys(token_ids, penalty_window.penalty)
    return dict(zip(token_ids, _curve(penalty_window, curve_length, len(token_ids)), strict=True))


def _curve_length(penalty_window: PenaltyWindow, num_output_tokens: int) -> int:
    """N, the number of tokens that the curve spans.

    clamp_length limits it to the tokens before the answer; in scope "expand" the answer's tokens are added.
    """
    length = penalty_window.length
    if penalty_window.clamp_length:
        length = min(length, len(penalty_window.token_ids))
    return length + num_output_tokens if penalty_window.scope == "expand" else length


def _last_tokens(
    penalty_window: PenaltyWindow, output_token_ids: SequenceOf[int], num_tokens: int
) -> list[int]:
    """The last `num_tokens` penalised tokens, or all if there are fewer."""
    penalised_output = () if penalty_window.scope == "ignore" else output_token_ids
    output_ids = penalised_output[max(0, len(penalised_output) - num_tokens) :]
    num_before = num_tokens - len(output_ids)
    window_ids = penalty_window.token_ids
    return [*window_ids[max(0, len(window_ids) - num_before) :], *output_ids]


def _curve(penalty_window: PenaltyWindow, curve_length: int, num_last: int) -> list[float]:
    """The curve's value at the last positions of its span: 1 at the first position, `penalty` at the last.

    Neodim's README, "repetition_penalty_slope": y = s x / (1 + |x| (s - 1)) for x from -1 to 1.
    """
    x = torch.arange(curve_length - num_last, curve_length, dtype=torch.float32) * 2 / (curve_length - 1) - 1
    y = penalty_window.slope * x / (1 + x.abs() * (penalty_window.slope - 1))
    return (1 + (penalty_window.penalty - 1) * (y + 1) / 2).tolist()
