"""What a request may ask for: each field's range, checked before anything is computed.

Knows plain values only; a dialect may be stricter, never wider.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from inference.errors import BadRequest
from inference.types import GenerationRequest

MAX_STOPS = 64
MAX_STOP_CHARS = 1_000
MAX_ANSWERS = 64
MAX_TOOLS = 1_000
MAX_ALTERNATIVES = 20

Read = Callable[[GenerationRequest], Any]
RANGES: tuple[tuple[str, Read, float, float], ...] = (
    ("temperature", lambda r: r.sampling.temperature, 0, 100),
    ("top_p", lambda r: r.sampling.top_p, math.ulp(0.0), 1),
    ("top_k", lambda r: r.sampling.top_k, 0, 2**31 - 1),
    ("min_p", lambda r: r.sampling.min_p, 0, 1),
    ("repetition_penalty", lambda r: r.sampling.repetition, 0.01, 100),
    ("presence_penalty", lambda r: r.sampling.presence, -2, 2),
    ("frequency_penalty", lambda r: r.sampling.frequency, -2, 2),
    ("seed", lambda r: r.sampling.seed, -(2**63), 2**64 - 1),
    ("n", lambda r: r.n, 1, MAX_ANSWERS),
    ("max_tokens", lambda r: r.max_tokens, 0, math.inf),
    ("min_tokens", lambda r: r.min_tokens, 0, math.inf),
    ("logprobs", lambda r: r.logprobs, 0, MAX_ALTERNATIVES),
    ("prompt_logprobs", lambda r: r.prompt_logprobs, 0, MAX_ALTERNATIVES),
    ("deadline", lambda r: r.deadline, math.ulp(0.0), math.inf),
)
SAYS = {"top_p": "must be in (0, 1]", "deadline": "must be more than 0 seconds"}


def check(request: GenerationRequest, vocab: int) -> None:
    """Raise BadRequest for the first field that breaks its rule. `vocab` is the width of the logits."""
    for field, read, low, high in RANGES:
        check_range(field, read(request), low, high)
    if request.max_tokens is not None and request.min_tokens > request.max_tokens:
        raise BadRequest(
            "min_tokens", f"must not exceed max_tokens ({request.max_tokens})", request.min_tokens
        )
    if len(request.tools) > MAX_TOOLS:
        raise BadRequest("tools", f"may hold at most {MAX_TOOLS}", len(request.tools))
    check_stops(request.stop)
    check_ids("stop_token_ids", request.stop_tokens, vocab)
    check_bias(request.sampling.bias, vocab)


def check_range(field: str, value: Any, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        edge = f"must be between {low} and {high}" if high < math.inf else f"must be at least {low}"
        raise BadRequest(field, SAYS.get(field, edge), value)


def check_stops(stops: tuple[str, ...]) -> None:
    if len(stops) > MAX_STOPS:
        raise BadRequest("stop", f"may hold at most {MAX_STOPS} strings", len(stops))
    for stop in stops:
        if not 0 < len(stop) <= MAX_STOP_CHARS:
            raise BadRequest("stop", f"needs strings of 1 to {MAX_STOP_CHARS} characters", stop)


def check_ids(field: str, ids: Any, vocab: int) -> None:
    for id in ids:
        if type(id) is not int or not 0 <= id < vocab:
            raise BadRequest(field, f"needs token ids from 0 to {vocab - 1}", id)


def check_bias(bias: Mapping[int, float], vocab: int) -> None:
    """A bias of minus infinity forbids a token; infinity the other way would forbid all others."""
    check_ids("logit_bias", bias, vocab)
    for id, value in bias.items():
        if math.isnan(value) or value == math.inf:
            raise BadRequest("logit_bias", f"needs finite numbers, token {id} has {value}")
