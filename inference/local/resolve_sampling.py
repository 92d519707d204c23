"""Sampling as the engine needs it: normalised, and with the seed of each answer."""

import secrets
from dataclasses import replace

from inference.sampling import Sampling
from inference.types import GenerationRequest

MIN_TEMPERATURE = 1e-5  # below it sampling is greedy, as in vLLM's SamplingParams


def normalise_sampling(sampling: Sampling, vocab: int) -> Sampling:
    """Replace parameters by equivalent ones that fewer cases distinguish.

    A temperature below MIN_TEMPERATURE and contrastive search are greedy; a top_k of at least `vocab` is off.
    """
    if sampling.penalty_alpha or sampling.temperature < MIN_TEMPERATURE:
        return replace(sampling, greedy=True, temperature=1.0)
    return replace(sampling, top_k=0) if sampling.top_k >= vocab else sampling


def with_seeds(request: GenerationRequest, default_seed: int | None = None) -> list[GenerationRequest]:
    """The request of each answer: their seeds differ; a greedy answer has none."""
    sampling = request.sampling
    if sampling.greedy:
        return [replace(request, sampling=replace(sampling, seed=None))] * request.n
    seed = default_seed if sampling.seed is None else sampling.seed
    first = secrets.randbits(63) if seed is None else seed
    return [replace(request, sampling=replace(sampling, seed=first + index)) for index in range(request.n)]
