"""What a request may ask for: each field's range, checked before anything is computed.

Knows plain values only; a dialect may be stricter, never wider.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from inference.engine.order import NAMES
from inference.errors import BadRequest
from inference.sampling import Sampling
from inference.types import GenerationRequest

MAX_STOPS = 64
MAX_CHARS = 1_000  # of a stop string, a bad word
MAX_ANSWERS = 64
MAX_TOOLS = 1_000
MAX_ALTERNATIVES = 20
MAX_BANS = 10_000
MAX_BAN_TOKENS = 1_000
MAX_WINDOW_TOKENS = 1_000_000

Read = Callable[[GenerationRequest], Any]
RANGES: tuple[tuple[str, Read, float, float], ...] = (
    ("temperature", lambda r: r.sampling.temperature, 0, 100),
    ("top_p", lambda r: r.sampling.top_p, math.ulp(0.0), 1),
    ("top_k", lambda r: r.sampling.top_k, 0, 2**31 - 1),
    ("min_p", lambda r: r.sampling.min_p, 0, 1),
    ("typical_p", lambda r: r.sampling.typical_p, math.ulp(0.0), 1),
    ("tfs", lambda r: r.sampling.tfs, 0, 1),
    ("top_a", lambda r: r.sampling.top_a, 0, 1),
    ("penalty_alpha", lambda r: r.sampling.contrast, 0, 1),
    ("repetition_penalty", lambda r: r.sampling.repetition, 0.01, 100),
    ("repetition_penalty", lambda r: r.sampling.window and r.sampling.window.penalty, 0.01, 100),
    ("repetition_penalty_range", lambda r: r.sampling.window and r.sampling.window.length, 0, math.inf),
    ("repetition_penalty_slope", lambda r: r.sampling.window and r.sampling.window.slope, 0, 1e6),
    ("presence_penalty", lambda r: r.sampling.presence, -2, 2),
    ("frequency_penalty", lambda r: r.sampling.frequency, -2, 2),
    ("frequency_penalty", lambda r: r.sampling.frequency_share, -2, 2),
    ("no_repeat_ngram_size", lambda r: r.sampling.no_repeat_ngram, 0, math.inf),
    ("watermark_gamma", lambda r: r.sampling.watermark and r.sampling.watermark.gamma, math.ulp(0.0), 1),
    ("watermark_delta", lambda r: r.sampling.watermark and r.sampling.watermark.delta, -100, 100),
    ("seed", lambda r: r.sampling.seed, -(2**63), 2**64 - 1),
    ("n", lambda r: r.n, 1, MAX_ANSWERS),
    ("max_tokens", lambda r: r.max_tokens, 0, math.inf),
    ("min_tokens", lambda r: r.min_tokens, 0, math.inf),
    ("truncate", lambda r: r.truncate, 1, math.inf),
    ("logprobs", lambda r: r.logprobs, 0, MAX_ALTERNATIVES),
    ("prompt_logprobs", lambda r: r.prompt_logprobs, 0, MAX_ALTERNATIVES),
    ("deadline", lambda r: r.deadline, math.ulp(0.0), math.inf),
)
WITHIN = "must be in (0, 1]"
SAYS = {
    "top_p": WITHIN,
    "typical_p": WITHIN,
    "watermark_gamma": WITHIN,
    "deadline": "must be more than 0 seconds",
}


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
    check_texts("stop", request.stop, MAX_STOPS)
    check_texts("bad_words", request.bad_words, MAX_BANS)
    check_ids("stop_token_ids", request.stop_tokens, vocab)
    check_bias(request.sampling.bias, vocab)
    check_bans(request.sampling, vocab)
    check_window(request.sampling, vocab)
    check_order(request.sampling.order)


def check_range(field: str, value: Any, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        edge = f"must be between {low} and {high}" if high < math.inf else f"must be at least {low}"
        raise BadRequest(field, SAYS.get(field, edge), value)


def check_texts(field: str, texts: tuple[str, ...], most: int) -> None:
    if len(texts) > most:
        raise BadRequest(field, f"may hold at most {most} strings", len(texts))
    for text in texts:
        if not 0 < len(text) <= MAX_CHARS:
            raise BadRequest(field, f"needs strings of 1 to {MAX_CHARS} characters", text)


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


def check_bans(sampling: Sampling, vocab: int) -> None:
    if len(sampling.banned) > MAX_BANS:
        raise BadRequest("bad_words", f"may hold at most {MAX_BANS} runs of tokens", len(sampling.banned))
    for run in sampling.banned:
        if not 0 < len(run) <= MAX_BAN_TOKENS:
            raise BadRequest("bad_words", f"needs runs of 1 to {MAX_BAN_TOKENS} tokens", len(run))
        check_ids("bad_words", run, vocab)
    check_ids("bad_words", sampling.banned_first, vocab)
    check_ids("allowed_token_ids", sampling.allowed or (), vocab)


def check_window(sampling: Sampling, vocab: int) -> None:
    """A text to penalise may be longer than the context, and is gone through for each token."""
    tokens = sampling.window.tokens if sampling.window else ()
    if len(tokens) > MAX_WINDOW_TOKENS:
        rule = f"may hold at most {MAX_WINDOW_TOKENS} tokens"
        raise BadRequest("repetition_penalty_prompt", rule, len(tokens))
    check_ids("repetition_penalty_prompt", tokens, vocab)


def check_order(order: tuple[str, ...]) -> None:
    for place, name in enumerate(order):
        if name not in NAMES:
            raise BadRequest("warpers_order", f"needs names among {', '.join(NAMES)}", name)
        if name in order[:place]:
            raise BadRequest("warpers_order", "may name each warper once", name)
