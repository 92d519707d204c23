"""Scores tokens that could stand in a prompt: candidates of the request, and tokens that are drawn.

Logprobs are the model's own, drawn tokens follow the request's temperature. Knows logits and sequences.
"""

from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from itertools import islice

import torch
from torch import Tensor

from inference.engine.sampling.gumbel import WORD, add_gumbel_noise, rng_keys
from inference.engine.sampling.scatter import index_tensor
from inference.engine.sequence import Sequence
from inference.engine.step_output import PromptLogprob
from inference.model.device_copy import copy_to_host
from inference.prompt_scoring import PlaceScores

DRAW_STRIDE = WORD // 31  # between the seeds of draws: their streams are not those of other answers


def add_place_scores(
    prompt_logprobs: SequenceOf[PromptLogprob], logits: Tensor, sequence: Sequence
) -> list[PromptLogprob]:
    """The scores of a sequence's next prompt tokens, with those of other tokens at their places.

    logits (n, V): one row a place
    """
    scoring = sequence.request.prompt_scoring
    if scoring is None:
        return list(prompt_logprobs)
    first, scores = len(sequence.prompt_logprobs) - 1, logits.float().log_softmax(-1)
    candidates = list(scoring.candidates[first : first + len(scores)]) or [()] * len(scores)
    draws = draw_tokens(scores, sequence, first, scoring.num_draws)
    places = zip(prompt_logprobs, candidate_logprobs(scores, candidates), draws, strict=True)
    return [each._replace(place=PlaceScores(own, drawn_tokens)) for each, own, drawn_tokens in places]


def candidate_logprobs(
    scores: Tensor, candidates: SequenceOf[SequenceOf[int]]
) -> Iterator[tuple[float, ...]]:
    """For each row of scores (n, V), those of its candidates."""
    rows = index_tensor([row for row, ids in enumerate(candidates) for _ in ids], scores)
    columns = index_tensor([token_id for ids in candidates for token_id in ids], scores)
    values = iter(copy_to_host(scores[rows, columns]).tolist())  # sync
    return (tuple(islice(values, len(ids))) for ids in candidates)


def draw_tokens(
    scores: Tensor, sequence: Sequence, first: int, num_draws: int
) -> Iterator[tuple[tuple[int, float], ...]]:
    """For each row of scores (n, V), (id, score) of the drawn tokens. first: the place of the first row."""
    draws = [draw_token(scores, sequence, first, draw) for draw in range(num_draws)]
    if not draws:
        return iter([()] * len(scores))
    ids = torch.stack(draws, 1)  # (n, K)
    pairs = zip(copy_to_host(ids).tolist(), copy_to_host(scores.gather(1, ids)).tolist(), strict=True)  # sync
    return (tuple(zip(row_ids, values, strict=True)) for row_ids, values in pairs)


def draw_token(scores: Tensor, sequence: Sequence, first: int, draw: int) -> Tensor:
    """One token (n,) for each row, the same for the same seed and place."""
    if sequence.greedy:
        return scores.argmax(-1)
    seed = sequence.seed + (draw + 1) * DRAW_STRIDE
    keys = rng_keys([seed] * len(scores), range(first, first + len(scores)), scores.device)
    return add_gumbel_noise(scores / sequence.request.sampling.temperature, keys).argmax(-1)
