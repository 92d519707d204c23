"""Requests for one answer, as the engine gets them: the prompt is token ids, and every value is resolved."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from inference.sampling import Sampling
from inference.types import GenerationRequest


def make_request(
    prompt_token_ids: Iterable[int],
    max_tokens: int,
    sampling: Sampling | None = None,
    *,
    seed: int = 0,
    stop_token_ids: Iterable[int] = (),
    **fields: Any,
) -> GenerationRequest:
    return GenerationRequest(
        tuple(prompt_token_ids),
        replace(sampling or Sampling(), seed=seed),
        max_tokens=max_tokens,
        stop_token_ids=tuple(stop_token_ids),
        **fields,
    )
