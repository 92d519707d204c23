"""OpenAI's and vLLM's sampling parameters in the server's own terms. Their ranges have been checked."""

import math
import sys

from api.openai.bodies import GeneratingBody
from api.openai.errors import Refused
from inference.sampling import Sampling

MOST_BIAS = 100.0  # of either sign; more is taken for that much, as by OpenAI


def sampling(body: GeneratingBody, temperature: float) -> Sampling:
    """`temperature` stands in where none is given; 0 is greedy. Raises Refused."""
    given = _or(body.temperature, temperature)
    return Sampling(
        greedy=given == 0,
        temperature=given or 1.0,
        top_k=max(0, body.top_k or 0),
        top_p=_or(body.top_p, 1.0),
        min_p=_or(body.min_p, 0.0),
        repetition=_or(body.repetition_penalty, 1.0),
        presence=_or(body.presence_penalty, 0.0),
        frequency=_or(body.frequency_penalty, 0.0),
        bias=_bias(body.logit_bias),
        allowed=None if body.allowed_token_ids is None else frozenset(body.allowed_token_ids),
        allowed_ends=body.allowed_token_ids is None,
        seed=body.seed,
    )


def _or(value: int | float | None, default: float) -> float:
    """A whole number may be larger than any float."""
    return default if value is None else float(min(value, sys.float_info.max))


def _bias(given: dict[str, float] | list[float] | None) -> dict[int, float]:
    if not isinstance(given, dict):
        return {}
    if not all(map(math.isfinite, given.values())):
        raise Refused("logit_bias must hold finite numbers.", "logit_bias")
    try:
        return {int(id): max(-MOST_BIAS, min(MOST_BIAS, value)) for id, value in given.items()}
    except ValueError:
        raise Refused(
            "Found token_id in logit_bias that is not an integer or string representing an integer",
            "logit_bias",
        ) from None
